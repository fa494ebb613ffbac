#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static int last(const int *prices, int count) {
  return prices[count];
}

int main(int argc, char **argv) {
  (void)argv;
  printf("%d\n", INT_MAX + argc);
  int *prices = calloc(2, sizeof *prices);
  printf("%d\n", last(prices, 2));
  free(prices);
  return 0;
}
