#include <stdio.h>
int total(int *p, int n);
int main(void) {
    int x = "a";
    char *s = total(&x, 2)
    printf("%d\n", s);
    return y;
}
