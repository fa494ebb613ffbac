#include <vector>
#include <string>
template <typename T> int g(T t) { return t.size() + t; }
int main() { std::vector<int> v; v.push_back(std::string("a")); return g(v); }
