//! Code that a whole text leaves out, in many languages: what nobody asked for is kept in every tool mode, and what the task
//! asks for, or what a change of the code itself does, gets through.

use agent::tools::{Overwrite, Writer, overwrite};

/// What is to come of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The file keeps what the text leaves out, and the model is told of it by this name.
    Kept(&'static str),
    /// The text is written.
    Written,
}
use Expected::{Kept, Written};

/// A text over a file, for a task.
struct Case {
    path: &'static str,
    task: &'static str,
    old: &'static str,
    new: String,
    /// What another file gets.
    other: &'static str,
    expected: Expected,
}

/// What is wrong with what comes of it, with a model that means what it repeats and with a small one.
fn wrong(case: &Case) -> Vec<String> {
    let Case { path, task, old, new, other, expected } = case;
    let elsewhere = [(*other).to_owned()];
    let decide = |means_it| {
        let writer =
            Writer { task, path, elsewhere: &elsewhere, means_it, same_text: false, same_loss: false };
        let decided = overwrite(old, new, writer);
        let right = match (expected, &decided) {
            (Kept(name), Overwrite::Refuse { lost, .. } | Overwrite::Merge { kept: lost, .. }) => {
                lost.contains(name)
            }
            (Written, Overwrite::Write | Overwrite::Remove { .. }) => true,
            (Kept(_) | Written, _) => false,
        };
        (!right).then(|| format!("{path}, {task:?}: {decided:?} is not {expected:?}, means it: {means_it}"))
    };
    [true, false].into_iter().filter_map(decide).collect()
}

fn none_is_wrong(cases: impl IntoIterator<Item = Case>) {
    let wrong: Vec<String> = cases.into_iter().flat_map(|case| wrong(&case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A text without what stands from one mark to the end of another.
fn without(text: &str, from: &str, to: &str) -> String {
    let begin = text.find(from).unwrap_or_else(|| panic!("{from} is not in {text}"));
    let end = begin + text[begin..].find(to).unwrap_or_else(|| panic!("{to} is not in {text}")) + to.len();
    format!("{}{}", &text[..begin], &text[end..])
}

const TF: &str = "variable \"region\" {\n  type = string\n}\n\nresource \"aws_s3_bucket\" \"logs\" {\n  bucket = \"logs\"\n  tags = {\n    a = 1\n  }\n}\n\nresource \"aws_s3_bucket\" \"data\" {\n  bucket = \"data\"\n}\n\nmodule \"net\" {\n  source = \"./net\"\n}\n\noutput \"id\" {\n  value = aws_s3_bucket.data.id\n}\n";
const PROTO: &str = "syntax = \"proto3\";\n\npackage shop;\n\nmessage Item {\n  string name = 1;\n  int32 count = 2;\n}\n\nenum State {\n  NEW = 0;\n}\n\nmessage Order {\n  repeated Item items = 1;\n}\n\nservice Shop {\n  rpc Buy(Order) returns (Item);\n  rpc Sell(Item) returns (Order) {}\n}\n";
const DART: &str = "import 'dart:io';\n\nabstract class Shape {\n  double get area;\n}\n\nclass Box extends Shape {\n  final double w;\n  Box(this.w);\n  Box.unit() : w = 1;\n  factory Box.of(Map<String, dynamic> j) => Box(j['w']);\n\n  @override\n  double get area => w * w;\n\n  double grow(double by) {\n    return w + by;\n  }\n\n  bool fits(Box o) => o.w > w;\n}\n\nmixin Named on Shape {\n  String name = '';\n}\n\nint add(int a, int b) => a + b;\n\nvoid main() async {\n  print(add(1, 2));\n}\n";
const CPP: &str = "#pragma once\n\ntemplate <typename T>\nclass Box {\npublic:\n  explicit Box(T x) : x_(x) {}\n  virtual ~Box() = default;\n  bool operator==(const Box& o) const { return x_ == o.x_; }\n  T operator()(int n) const {\n    return x_ + n;\n  }\n  T& operator[](int n) { return x_; }\n\nprivate:\n  T x_;\n};\n\nstd::ostream& operator<<(std::ostream& out, const Box<int>& b) {\n  return out << b(0);\n}\n\ntemplate<typename T> T twice(T x) {\n  return x + x;\n}\n";
const YAML: &str = "# The service.\nname: shop\nport: 8080\ndebug: false\nlog_level: info\ndatabase:\n  host: db\n  port: 5432\n  user: shop\n  pool: 10\n  timeout: 30\n";
const K8S: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: shop\nspec:\n  ports:\n    - port: 80\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  replicas: 2\n";
const STEPS: &str = "on: push\njobs:\n  test:\n    runs-on: ubuntu\n    steps:\n      - name: Check out\n        uses: actions/checkout@v4\n      - name: Lint\n        run: make lint\n      - name: Test\n        run: make test\n";
const GRAPHQL: &str = "scalar Date\n\ntype Query {\n  users(first: Int): [User!]!\n}\n\ninput NewUser {\n  name: String!\n}\n\nextend type User {\n  age: Int\n}\n\nunion Found = User | Post\n";
const KOTLIN: &str = "package m\n\nfun String.shout(): String = uppercase()\n\nfun String.twice(): String {\n    return this + this\n}\n\nfun <T> first(list: List<T>): T = list[0]\n\nsealed class State {\n    object On : State()\n}\n\nclass Cart {\n    init {\n        println(1)\n    }\n\n    operator fun plus(o: Cart): Cart = o\n\n    companion object {\n        fun of() = Cart()\n    }\n}\n";
const SWIFT: &str = "import SwiftUI\n\nprotocol Named {\n    var name: String { get }\n}\n\nstruct Page: View {\n    var body: some View {\n        Text(\"x\")\n    }\n\n    init(x: Int) {\n        self.x = x\n    }\n\n    deinit {\n        close()\n    }\n}\n\nextension Page: Named {\n    var name: String { \"page\" }\n}\n\nfunc == (a: Page, b: Page) -> Bool {\n    return a.x == b.x\n}\n";
const SCALA: &str = "package m\n\ncase class Item(name: String)\n\nsealed trait Shape\n\nobject Main extends App {\n  implicit class Rich(x: Int) {\n    def twice: Int = x * 2\n  }\n  def +(o: Int): Int = o\n  def run(): Unit = println(1)\n}\n";
const ELIXIR: &str = "defmodule Shop.Cart do\n  use GenServer\n\n  defmacro go(x) do\n    x\n  end\n\n  def add(cart, x), do: [x | cart]\n\n  defp check(x) do\n    x\n  end\nend\n\ndefmodule Shop.Item do\n  defstruct [:name]\nend\n";
const HASKELL: &str = "module Main where\n\ndata Color = Red | Green\n\nnewtype Box a = Box a\n\ninstance Show Color where\n  show _ = \"c\"\n\nadd :: Int -> Int -> Int\nadd a b = a + b\n\nsub :: Int -> Int -> Int\nsub a b = a - b\n";
const LUA: &str = "local M = {}\n\nfunction M.add(a, b)\n  return a + b\nend\n\nfunction M:sub(a, b)\n  return a - b\nend\n\nlocal function mul(a, b)\n  return a * b\nend\n\nM.div = function(a, b)\n  return a / b\nend\n\nreturn M\n";
const R: &str = "add <- function(a, b) {\n  a + b\n}\n\nsub = function(a, b) a - b\n\nmul <-\n  function(a, b) {\n    a * b\n  }\n";
const RUBY: &str = "class Cart\n  attr_reader :items\n\n  def self.of(x)\n    new(x)\n  end\n\n  def self.none\n    new([])\n  end\n\n  def empty?\n    @items.empty?\n  end\n\n  def ==(other)\n    other.items == items\n  end\nend\n";
const RSPEC: &str = "RSpec.describe Cart do\n  it \"adds\" do\n    expect(1).to eq(1)\n  end\n\n  context \"when empty\" do\n    it \"is empty\" do\n      expect([]).to be_empty\n    end\n  end\nend\n";
const JEST: &str = "import { add } from './add';\n\ndescribe('add', () => {\n  it('adds', () => {\n    expect(add(1, 2)).toBe(3);\n  });\n\n  it('commutes', () => {\n    expect(add(2, 1)).toBe(3);\n  });\n});\n\ntest('zero', async () => {\n  expect(add(0, 0)).toBe(0);\n});\n";
const EXPRESS: &str = "const app = express();\n\napp.get('/users', (req, res) => {\n  res.json(users);\n});\n\napp.post('/users', async (req, res) => {\n  users.push(req.body);\n  res.sendStatus(201);\n});\n\napp.listen(3000);\n";
const RUST: &str = "pub struct Box {\n    x: i32,\n}\n\nimpl Box {\n    pub fn get(&self) -> i32 {\n        self.x\n    }\n}\n\nimpl Display for Box {\n    fn fmt(&self, f: &mut Formatter) -> Result {\n        write!(f, \"box {}\", self.x)\n    }\n}\n\nimpl Debug for Box {\n    fn fmt(&self, f: &mut Formatter) -> Result {\n        f.debug_struct(\"Box\").finish()\n    }\n}\n\npub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    fn one() -> i32 {\n        1\n    }\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(one(), 1), 2);\n    }\n}\n";
const CSS: &str = ":root {\n  --c: red;\n}\n\n.card {\n  color: var(--c);\n  margin: 0;\n}\n\n.card:hover { color: blue; }\n\n@media (max-width: 600px) {\n  .card {\n    margin: 1px;\n  }\n}\n";
const DOCKER: &str = "FROM rust:1 AS build\nWORKDIR /src\nCOPY . .\nRUN cargo build --release\n\nFROM debian:12\nCOPY --from=build /src/target/release/x /x\nUSER nobody\nENTRYPOINT [\"/x\"]\n";
const TOML: &str = "[package]\nname = \"x\"\n\n[[bin]]\nname = \"one\"\npath = \"src/one.rs\"\n\n[[bin]]\nname = \"two\"\npath = \"src/two.rs\"\n";
const VUE: &str = "<script setup>\nconst x = 1;\n</script>\n\n<template>\n  <p>{{ x }}</p>\n</template>\n\n<style scoped>\np { color: red; }\n</style>\n";
const NGINX: &str = "http {\n    server {\n        listen 80;\n    }\n\n    server {\n        listen 443 ssl;\n        location /api {\n            proxy_pass http://api;\n        }\n    }\n}\n";
const SQL: &str = "CREATE TABLE a (\n  id int\n);\n\nCREATE UNIQUE INDEX a_id ON a (id);\n\nCREATE EXTENSION IF NOT EXISTS pgcrypto;\n\nCREATE OR REPLACE FUNCTION f() RETURNS int AS $$\n  SELECT 1;\n$$ LANGUAGE sql;\n";
const LISP: &str =
    "(ns shop.core)\n\n(defn add [a b]\n  (+ a b))\n\n(defn- sub [a b]\n  (- a b))\n\n(def rate 3)\n";
const OCAML: &str = "let add a b = a + b\n\nlet rec sum l =\n  match l with\n  | [] -> 0\n  | x :: r -> x + sum r\n\ntype color = Red | Green\n";
const POWERSHELL: &str = "function Get-One {\n  1\n}\n\nfunction Get-Two {\n  2\n}\n";
const PYTHON: &str = "class Box:\n    @property\n    def x(self):\n        return self._x\n\n    @x.setter\n    def x(self, value):\n        self._x = check(value)\n\n\ndef add(a, b):\n    return a + b\n";

/// Files, marks around what is left out of them, and its name.
#[rustfmt::skip]
const LEFT_OUT: &[(&str, &str, &str, &str, &str)] = &[
    ("main.tf", TF, "variable", "}\n", "region"),
    ("main.tf", TF, "resource \"aws_s3_bucket\" \"logs\"", "\n}\n", "aws_s3_bucket logs"),
    ("main.tf", TF, "module", "}\n", "module net"),
    ("main.tf", TF, "output", "}\n", "output id"),
    ("shop.proto", PROTO, "message Order", "}\n", "Order"),
    ("shop.proto", PROTO, "enum", "}\n", "State"),
    ("shop.proto", PROTO, "service", "\n}\n", "Shop"),
    ("shop.proto", PROTO, "  rpc Buy", "\n", "Buy"),
    ("shop.proto", PROTO, "  rpc Sell", "\n", "Sell"),
    ("box.dart", DART, "abstract class", "}\n", "Shape"),
    ("box.dart", DART, "  factory", "\n", "Box.of"),
    ("box.dart", DART, "  @override\n", "=> w * w;\n", "area"),
    ("box.dart", DART, "  double grow", "  }\n", "grow"),
    ("box.dart", DART, "  bool fits", "\n", "fits"),
    ("box.dart", DART, "mixin", "}\n", "Named"),
    ("box.dart", DART, "int add", "\n", "add"),
    ("box.dart", DART, "void main", "}\n", "main"),
    ("box.hpp", CPP, "  virtual ~Box", "\n", "~Box"),
    ("box.hpp", CPP, "  bool operator==", "\n", "operator=="),
    ("box.hpp", CPP, "  T operator()", "  }\n", "operator()"),
    ("box.hpp", CPP, "  T& operator[]", "\n", "operator[]"),
    ("box.hpp", CPP, "std::ostream& operator", "}\n", "operator<<"),
    ("box.hpp", CPP, "template<typename T> T twice", "}\n", "twice"),
    ("config.yml", YAML, "debug", "\n", "debug"),
    ("config.yml", YAML, "debug", "info\n", "log_level"),
    ("config.yml", YAML, "  user", "30\n", "database.user"),
    ("k8s.yaml", K8S, "---", "replicas: 2\n", "kind"),
    ("ci.yml", STEPS, "      - name: Lint", "lint\n", "Lint"),
    ("schema.graphql", GRAPHQL, "scalar", "\n", "Date"),
    ("schema.graphql", GRAPHQL, "input", "}\n", "NewUser"),
    ("schema.graphql", GRAPHQL, "extend", "}\n", "extend type User"),
    ("schema.graphql", GRAPHQL, "union", "\n", "Found"),
    ("Cart.kt", KOTLIN, "fun String.twice", "}\n", "twice"),
    ("Cart.kt", KOTLIN, "fun <T>", "\n", "first"),
    ("Cart.kt", KOTLIN, "sealed", "\n}\n", "State"),
    ("Cart.kt", KOTLIN, "    init", "    }\n", "init"),
    ("Cart.kt", KOTLIN, "    operator", "\n", "plus"),
    ("Cart.kt", KOTLIN, "    companion", "    }\n", "of"),
    ("Page.swift", SWIFT, "protocol", "\n}\n", "protocol Named"),
    ("Page.swift", SWIFT, "    var body", "    }\n", "body"),
    ("Page.swift", SWIFT, "    init", "    }\n", "init"),
    ("Page.swift", SWIFT, "    deinit", "    }\n", "deinit"),
    ("Page.swift", SWIFT, "extension", "\n}\n", "extension Page"),
    ("Page.swift", SWIFT, "func ==", "\n}\n", "=="),
    ("Main.scala", SCALA, "case class", "\n", "Item"),
    ("Main.scala", SCALA, "sealed", "\n", "Shape"),
    ("Main.scala", SCALA, "  implicit", "\n  }\n", "Rich"),
    ("Main.scala", SCALA, "  def +", "\n", "+"),
    ("cart.ex", ELIXIR, "  defmacro", "  end\n", "go"),
    ("cart.ex", ELIXIR, "  defp", "  end\n", "check"),
    ("cart.ex", ELIXIR, "defmodule Shop.Item", "end\n", "Shop.Item"),
    ("Main.hs", HASKELL, "data", "\n", "Color"),
    ("Main.hs", HASKELL, "newtype", "\n", "Box"),
    ("Main.hs", HASKELL, "instance", "\"c\"\n", "Show Color"),
    ("Main.hs", HASKELL, "sub ::", "a - b\n", "sub"),
    ("m.lua", LUA, "function M.add", "end\n", "add"),
    ("m.lua", LUA, "function M:sub", "end\n", "sub"),
    ("m.lua", LUA, "local function", "end\n", "mul"),
    ("m.lua", LUA, "M.div", "end\n", "div"),
    ("m.R", R, "add", "}\n", "add"),
    ("m.R", R, "sub", "\n", "sub"),
    ("cart.rb", RUBY, "  def self.none", "  end\n", "none"),
    ("cart.rb", RUBY, "  def empty?", "  end\n", "empty?"),
    ("cart.rb", RUBY, "  def ==", "  end\n", "=="),
    ("cart_spec.rb", RSPEC, "  it \"adds\"", "  end\n", "adds"),
    ("cart_spec.rb", RSPEC, "    it \"is empty\"", "    end\n", "is empty"),
    ("add.test.js", JEST, "  it('commutes'", "  });\n", "commutes"),
    ("add.test.js", JEST, "test('zero'", "});\n", "zero"),
    ("app.js", EXPRESS, "app.post", "\n});\n", "/users"),
    ("box.rs", RUST, "impl Debug", "\n}\n", "fmt"),
    ("box.rs", RUST, "#[cfg(test)]", "\n}\n", "tests"),
    ("page.css", CSS, ".card:hover", "\n", ".card:hover"),
    ("page.css", CSS, "@media", "\n}\n", "@media"),
    ("Dockerfile", DOCKER, "FROM rust", "--release\n", "build"),
    ("Dockerfile", DOCKER, "ENTRYPOINT", "\n", "ENTRYPOINT"),
    ("Cargo.toml", TOML, "[[bin]]\nname = \"two\"", "two.rs\"\n", "bin"),
    ("Page.vue", VUE, "<style", "</style>\n", "<style"),
    ("nginx.conf", NGINX, "    server {\n        listen 443", "\n    }\n", "server"),
    ("a.sql", SQL, "CREATE UNIQUE", "\n", "a_id"),
    ("a.sql", SQL, "CREATE EXTENSION", "\n", "pgcrypto"),
    ("a.sql", SQL, "CREATE OR", "sql;\n", "f"),
    ("core.clj", LISP, "(defn- sub", "b))\n", "sub"),
    ("core.clj", LISP, "(def rate", "\n", "rate"),
    ("m.ml", OCAML, "let add", "\n", "add"),
    ("m.ml", OCAML, "let rec", "sum r\n", "sum"),
    ("m.ps1", POWERSHELL, "function Get-Two", "}\n", "Get-Two"),
    ("box.py", PYTHON, "    @x.setter", "(value)\n", "x"),
];

#[test]
fn what_nobody_asked_for_is_kept_in_every_language() {
    let task = "Say in a comment what this is for";
    none_is_wrong(LEFT_OUT.iter().map(|(path, old, from, to, name)| {
        let new = without(old, from, to);
        Case { path, task, old, new, other: "", expected: Kept(name) }
    }));
    none_is_wrong(LEFT_OUT.iter().map(|(path, old, ..)| Case {
        path,
        task,
        old,
        new: (*old).to_owned(),
        other: "",
        expected: Written,
    }));
}

const CALC: &str = "TITLE = \"Sums of numbers\"\nRATE = 1\n\n\ndef helper(a):\n    check(a)\n    return a * RATE\n\n\ndef add(a, b):\n    return helper(a) + b\n\n\nclass Box:\n    def __init__(self, x):\n        self.x = x\n\n    def get(self):\n        return self.x\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_box():\n    box = Box(1)\n    assert box.get() == 1\n";
const TESTS: &str = "from calc import Box, add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_box():\n    box = Box(1)\n    assert box.get() == 1\n";
const HELPER: &str = "def helper(a):\n    check(a)\n    return a * RATE\n";

fn settings(count: usize) -> String {
    format!(
        "TITLE = \"A long title\"\n{}",
        (0..count).map(|n| format!("VALUE_{n} = {n}\n")).collect::<String>()
    )
}

/// Ordinary work: what the task asks to have removed, and changes by which names and lines go without anything being lost.
#[test]
fn what_is_asked_for_and_ordinary_work_gets_through() {
    let no_tests = without(CALC, "\n\ndef test_add", "get() == 1\n");
    let no_box = without(CALC, "class Box", "return self.x\n\n\n")
        .replace("def test_box():\n    box = Box(1)\n    assert box.get() == 1\n", "");
    let inlined = without(CALC, "def helper", "RATE\n\n\n").replace("helper(a) + b", "a * RATE + b");
    let no_helper = without(CALC, "def helper", "RATE\n\n\n");
    let class_only = without(CALC, "class Box", "return self.x\n\n\n");
    let extracted = CALC.replace(
        "    return helper(a) + b",
        "    return total(a, b)\n\n\ndef total(a, b):\n    return helper(a) + b",
    );
    let tf = without(TF, "resource \"aws_s3_bucket\" \"logs\"", "\n}\n");
    #[rustfmt::skip]
    let cases = [
        ("calc.py", "Move the tests to another file", CALC, no_tests.clone(), TESTS, Written),
        ("calc.py", "Move the tests to test_calc.py", CALC, no_tests.clone(), "", Kept("test_add")),
        ("calc.py", "Split calc.py", CALC, no_tests.clone(), TESTS, Written),
        ("calc.py", "Remove the tests", CALC, no_tests.clone(), "", Written),
        ("calc.py", "Do not remove the tests", CALC, no_tests.clone(), "", Kept("test_add")),
        ("calc.py", "Remove the tests of add", CALC, no_tests, "", Kept("test_box")),
        ("calc.py", "Inline function helper", CALC, inlined.clone(), "", Written),
        ("calc.py", "Inline the helper `helper` into add", CALC, inlined.clone(), "", Written),
        ("calc.py", "Make add faster", CALC, inlined, "", Kept("helper")),
        ("calc.py", "Delete class Box", CALC, class_only.clone(), "", Written),
        ("calc.py", "Get rid of Box", CALC, class_only.clone(), "", Written),
        ("calc.py", "Delete the class Box and the function test_box", CALC, no_box.clone(), "", Written),
        ("calc.py", "Delete the class Crate", CALC, class_only, "", Kept("Box")),
        ("calc.py", "Delete test_box", CALC, no_box, "", Kept("Box")),
        ("calc.py", "Put helper into a file of its own", CALC, no_helper.clone(), HELPER, Written),
        ("calc.py", "Put helper into a file of its own", CALC, no_helper, "def other():\n    pass\n", Kept("helper")),
        ("calc.py", "Write calc.py from scratch", CALC, "print(1)\n".to_owned(), "", Written),
        ("calc.py", "Write the title from scratch", CALC, "print(1)\n".to_owned(), "", Kept("helper")),
        ("calc.py", "Extract what add does", CALC, extracted, "", Written),
        ("calc.py", "Rename helper to scale", CALC, CALC.replace("helper", "scale"), "", Written),
        ("calc.py", "Give it better names", CALC, CALC.replace("helper", "scale").replace("Box", "Crate"), "", Written),
        ("calc.py", "Indent with tabs", CALC, CALC.replace("    ", "\t"), "", Written),
        ("calc.py", "Make helper simpler", CALC, CALC.replace("    check(a)\n    return a * RATE", "    return a"), "", Written),
        ("box.rs", "Delete struct Box", RUST, without(RUST, "pub struct", "finish()\n    }\n}\n\n"), "", Written),
        ("box.rs", "Move the tests to tests/add.rs", RUST, without(RUST, "#[cfg(test)]", "\n}\n"), "fn one() -> i32 {\n    1\n}\n\n#[test]\nfn adds() {\n    assert_eq!(add(one(), 1), 2);\n}\nmod tests {}\n", Written),
        ("box.rs", "Make Box generic", RUST, RUST.replace("struct Box", "struct Box<T>").replace("impl Box", "impl<T> Box<T>").replace("for Box", "for Box<T>"), "", Written),
        ("box.hpp", "Delete operator<<", CPP, CPP.replace("twice", "double_of"), "", Written),
        ("box.hpp", "Make it a plain class", CPP, CPP.replace("template <typename T>\nclass", "class").replace("T ", "int "), "", Written),
        ("main.tf", "Remove aws_s3_bucket.logs", TF, tf.clone(), "", Written),
        ("main.tf", "Add a bucket", TF, tf.replace("\"data\" {", "\"more\" {\n  bucket = \"more\"\n}\n\nresource \"aws_s3_bucket\" \"data\" {"), "", Kept("logs")),
        ("main.tf", "Call the bucket archive", TF, TF.replace("\"aws_s3_bucket\" \"logs\"", "\"aws_s3_bucket\" \"archive\""), "", Written),
        ("main.tf", "Put the module into its own file", TF, without(TF, "module", "}\n"), "module \"net\" {\n  source = \"./net\"\n}\n", Written),
        ("shop.proto", "Delete the message Order", PROTO, without(PROTO, "message Order", "}\n"), "", Written),
        ("shop.proto", "Count in 64 bits", PROTO, PROTO.replace("int32", "int64"), "", Written),
        ("page.css", "Make it blue", CSS, CSS.replace(".card:hover { color: blue; }", ".card:focus {\n  color: navy;\n}"), "", Written),
        ("config.yml", "Remove the key debug", YAML, without(YAML, "debug", "\n"), "", Written),
        ("config.yml", "Use another port", YAML, YAML.replace("8080", "9090"), "", Written),
        ("config.yml", "Call it level", YAML, YAML.replace("log_level", "level"), "", Written),
        ("add.test.js", "Say what it does", JEST, JEST.replace("'commutes'", "'does not mind the order'"), "", Written),
        ("app.js", "Serve people", EXPRESS, EXPRESS.replace("/users", "/people"), "", Written),
        ("Dockerfile", "Use a newer Debian", DOCKER, DOCKER.replace("debian:12", "debian:13"), "", Written),
        ("m.R", "Use arrows", R, R.replace("sub = function", "sub <- function"), "", Written),
        ("box.dart", "Use a body", DART, DART.replace("int add(int a, int b) => a + b;", "int add(int a, int b) {\n  return a + b;\n}"), "", Written),
    ];
    none_is_wrong(cases.into_iter().map(|(path, task, old, new, other, expected)| Case {
        path,
        task,
        old,
        new,
        other,
        expected,
    }));
}

#[test]
fn what_a_task_lets_go_is_what_it_names() {
    let long = settings(39);
    let decide = |task: &str, new: &str| {
        let writer = |means_it| Writer {
            task,
            path: "settings.py",
            elsewhere: &[],
            means_it,
            same_text: false,
            same_loss: false,
        };
        [true, false].map(|means_it| overwrite(&long, new, writer(means_it)))
    };
    let title = "TITLE = \"A title\"\n";
    for task in
        ["make the TITLE shorter", "Shorten the title in settings.py", "Clean the title", "Delete TITLE"]
    {
        for decided in decide(task, title) {
            let Overwrite::Refuse { lost, .. } = decided else { panic!("{task}: {decided:?}") };
            assert!(lost.contains("lines"), "{task}: {lost}");
        }
    }
    for decided in decide("Make settings.py shorter", title) {
        assert!(
            matches!(decided, Overwrite::Remove { asked: true, .. } | Overwrite::Refuse { .. }),
            "{decided:?}"
        );
    }
    // What is named goes, and nothing beside it.
    let with = format!("{long}\n\ndef sub(a):\n    return a\n");
    let writer = Writer {
        task: "Remove sub",
        path: "settings.py",
        elsewhere: &[],
        means_it: true,
        same_text: false,
        same_loss: false,
    };
    assert!(matches!(overwrite(&with, &long, writer), Overwrite::Remove { asked: true, .. }));
    assert!(matches!(overwrite(&with, title, writer), Overwrite::Refuse { .. }));
}
