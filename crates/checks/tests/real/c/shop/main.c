#include <stdio.h>
int f(int a) {
  int unused;
  return a + missing;
}
int main(void) { char *p = 3; printf("%s\n", 5); return f(1) }
