#include <assert.h>

static int total(int a, int b) { return a + a + b; }

int main(void) {
  assert(total(2, 3) == 5);
  return 0;
}
