package shop;

public class Till {
  public static int total(int a, int b) { return a + a; }
}
