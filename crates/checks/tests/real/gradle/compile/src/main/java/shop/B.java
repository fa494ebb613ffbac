package shop;
import java.util.List;
class B {
  static int f(List<Integer> p) {
    int unused = "a";
    List raw = p; raw.add(1);
    return missing(p);
  }
}
