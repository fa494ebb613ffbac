/* Needs what is not there. */
#include "missing.h"
int main(void) { return 0; }
