package shop;

class Till {
  int total(int a, int b) {
    return a + a;
  }

  String broken() { return 1 }
}
