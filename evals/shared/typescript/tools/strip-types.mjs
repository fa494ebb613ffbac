// Replaces the types in TypeScript by blanks, so that every line and column stays where it is. What is more than a type (enum,
// namespace, parameter properties) is refused, as Node's own way of doing this refuses it.

const PUNCTUATION = [
  ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", "&&=", "||=", "??=", "=>", "==", "!=", "<=", "&&", "||", "??", "?.", "++",
  "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**",
];
const BEFORE_OPERAND = new Set([
  "return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw", "case", "do", "else", "await", "yield",
]);
const MODIFIERS = new Set(["public", "private", "protected", "readonly", "abstract", "override", "declare"]);
const NAME = /[\p{ID_Start}$_#][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /0[xXbBoO][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?/y;
const SPACE = /(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)+/y;

export function stripTypes(source, file = "source") {
  const tokens = tokenize(source, file);
  const parser = new Parser(source, file, tokens);
  parser.statements("end");
  return parser.result();
}

function fail(source, file, at, message) {
  const line = source.slice(0, at).split("\n").length;
  throw new SyntaxError(`${file}:${line}: ${message}`);
}

// Tokens: kind, text, start, end, whether a line ends before it. A template is a list of expressions in one token.
function tokenize(source, file) {
  const tokens = [];
  let at = 0;
  let lineBefore = false;
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    return found && found[0];
  };
  const push = (kind, length, more) => {
    tokens.push({ kind, text: source.slice(at, at + length), start: at, end: at + length, lineBefore, ...more });
    at += length;
    lineBefore = false;
  };
  const operandBefore = () => {
    const last = tokens[tokens.length - 1];
    if (!last) return false;
    if (last.kind === "name") return !BEFORE_OPERAND.has(last.text);
    return last.kind !== "mark" || [")", "]", "}"].includes(last.text);
  };
  while (at < source.length) {
    const space = match(SPACE);
    if (space) {
      lineBefore ||= space.includes("\n");
      at += space.length;
      continue;
    }
    const c = source[at];
    const name = match(NAME);
    if (name) {
      push("name", name.length);
    } else if (c === "`") {
      const { end, holes } = template(source, file, at);
      push("template", end - at, { holes });
    } else if (c === '"' || c === "'") {
      let end = at + 1;
      while (end < source.length && source[end] !== c && source[end] !== "\n") end += source[end] === "\\" ? 2 : 1;
      if (source[end] !== c) fail(source, file, at, "a string does not end");
      push("string", end + 1 - at);
    } else if (/\d/.test(c) || (c === "." && /\d/.test(source[at + 1] ?? ""))) {
      push("number", match(NUMBER).length);
    } else if (c === "/" && !operandBefore()) {
      let end = at + 1;
      for (let inClass = false; source[end] !== "/" || inClass; end += 1) {
        if (end >= source.length || source[end] === "\n") fail(source, file, at, "a regular expression does not end");
        if (source[end] === "\\") end += 1;
        else if (source[end] === "[") inClass = true;
        else if (source[end] === "]") inClass = false;
      }
      end += 1;
      while (/[a-z]/.test(source[end] ?? "")) end += 1;
      push("regex", end - at);
    } else {
      // `>` is always alone: it may end a type's arguments. A `?.` before a digit is a question.
      const mark = PUNCTUATION.find((mark) => source.startsWith(mark, at) && !mark.startsWith(">"));
      const isQuestion = mark === "?." && /\d/.test(source[at + 2] ?? "");
      push("mark", mark && !isQuestion ? mark.length : 1);
    }
  }
  tokens.push({ kind: "end", text: "end", start: at, end: at, lineBefore: true });
  return tokens;
}

// Where a template ends, and where the expressions in it are.
function template(source, file, start) {
  const holes = [];
  let at = start + 1;
  while (source[at] !== "`") {
    if (at >= source.length) fail(source, file, start, "a template does not end");
    if (source[at] === "\\") {
      at += 2;
    } else if (source.startsWith("${", at)) {
      const from = at + 2;
      let depth = 1;
      at = from;
      while (depth > 0) {
        if (at >= source.length) fail(source, file, start, "a template does not end");
        const c = source[at];
        if (c === "`") at = template(source, file, at).end;
        else {
          if (c === "{") depth += 1;
          if (c === "}") depth -= 1;
          at += 1;
        }
      }
      holes.push([from, at - 1]);
    } else {
      at += 1;
    }
  }
  return { end: at + 1, holes };
}

class Parser {
  constructor(source, file, tokens) {
    Object.assign(this, { source, file, tokens, place: 0, blanks: [] });
  }

  result() {
    let text = "";
    let at = 0;
    for (const [start, end, instead] of this.blanks.sort((a, b) => a[0] - b[0] || b[1] - a[1])) {
      if (end <= at) continue;
      const from = Math.max(start, at);
      text += this.source.slice(at, from) + (instead ?? this.source.slice(from, end).replace(/[^\s]/g, " "));
      at = end;
    }
    return text + this.source.slice(at);
  }

  get token() {
    return this.tokens[this.place];
  }

  peek(distance = 1) {
    return this.tokens[Math.min(this.place + distance, this.tokens.length - 1)];
  }

  is(text) {
    return this.token.text === text && (this.token.kind === "mark" || this.token.kind === "name");
  }

  take() {
    const token = this.token;
    if (token.kind !== "end") this.place += 1;
    return token;
  }

  accept(text) {
    return this.is(text) ? this.take() : null;
  }

  expect(text) {
    return this.accept(text) ?? this.fail(`"${text}" is expected, not "${this.token.text}"`);
  }

  fail(message) {
    fail(this.source, this.file, this.token.start, message);
  }

  // Blanks from a token to the one before the current.
  blankFrom(place) {
    if (place < this.place) this.blanks.push([this.tokens[place].start, this.tokens[this.place - 1].end]);
  }

  blankOne() {
    const place = this.place;
    this.take();
    this.blankFrom(place);
  }

  // Tries something; what it did is undone when it fails.
  attempt(work) {
    const { place, blanks } = this;
    this.blanks = [...blanks];
    try {
      if (work()) return true;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    Object.assign(this, { place, blanks });
    return false;
  }

  // ---- statements

  statements(end) {
    while (!this.is(end) && this.token.kind !== "end") this.statement();
    if (end !== "end") this.expect(end);
  }

  block() {
    this.expect("{");
    this.statements("}");
  }

  endOfStatement() {
    this.accept(";");
  }

  statement() {
    const { text, kind } = this.token;
    const next = this.peek();
    if (kind === "mark" && text === "{") return this.block();
    if (kind === "mark" && text === ";") return void this.take();
    if (kind === "name") {
      const declares = next.kind === "name" && !next.lineBefore;
      if (text === "import" && next.text !== "(" && next.text !== ".") return this.importOrExport();
      if (text === "export") return this.importOrExport();
      if ((text === "type" && declares) || (text === "interface" && declares)) return this.typeDeclaration();
      if (text === "declare" && declares) return this.ambient();
      if (text === "enum" || (text === "const" && next.text === "enum") || (text === "namespace" && declares)) {
        this.fail(`${text === "const" ? "enum" : text} is more than a type`);
      }
      if (text === "abstract" && next.text === "class") {
        this.blankOne();
        return this.class();
      }
      if (text === "class") return this.class();
      if (this.isFunction()) return void this.function();
      if (text === "const" || text === "let" || text === "var") {
        this.bindings();
        return this.endOfStatement();
      }
      if (text === "if" || text === "while" || text === "with" || text === "switch") return this.headed();
      if (text === "for") return this.for();
      if (text === "do") {
        this.take();
        this.statement();
        this.expect("while");
        this.parenthesised();
        return this.endOfStatement();
      }
      if (text === "try") return this.try();
      if (text === "return" || text === "throw" || text === "break" || text === "continue") {
        this.take();
        if (!this.token.lineBefore && !this.is(";") && !this.is("}")) this.expression();
        return this.endOfStatement();
      }
      if (text === "else") return void this.take();
      if (text === "case") {
        this.take();
        this.expression();
        return void this.expect(":");
      }
      if (next.text === ":" && next.kind === "mark") return void (this.take(), this.take());
    }
    this.expression();
    this.endOfStatement();
  }

  importOrExport() {
    const place = this.place;
    const word = this.take().text;
    const next = this.token;
    if (next.text === "type" && this.peek().text !== "from" && this.peek().text !== "," && this.peek().text !== "=") {
      if (word === "export" && this.peek().kind === "name") {
        this.typeDeclaration();
      } else {
        while (this.token.kind !== "string" && !(this.is("}") && this.peek().text !== "from")) this.take();
        this.take();
        this.endOfStatement();
      }
      return this.blankFrom(place);
    }
    if (word === "export" && ["interface", "declare"].includes(next.text)) {
      this.statement();
      return this.blankFrom(place);
    }
    if (word === "export") {
      if (this.accept("default")) {
        if (this.is("interface")) {
          this.statement();
          return this.blankFrom(place);
        }
        if (this.isFunction()) return this.function() || this.blankFrom(place);
        if (this.is("class") || this.is("abstract")) return this.statement();
        this.expression();
        return this.endOfStatement();
      }
      if (this.isFunction()) return this.function() || this.blankFrom(place);
      if (!this.is("{") && !this.is("*")) return this.statement();
    }
    this.names();
    while (this.token.kind !== "string" && !this.is(";") && !this.token.lineBefore) {
      if (this.is("{")) this.names();
      else this.take();
    }
    if (this.token.kind === "string") this.take();
    this.endOfStatement();
  }

  // `{ a, type B, c as d }`
  names() {
    if (!this.accept("{")) return;
    while (!this.accept("}")) {
      const place = this.place;
      const isType = this.is("type") && this.peek().kind === "name" && this.peek().text !== "as";
      while (!this.is(",") && !this.is("}")) this.take();
      this.accept(",");
      if (isType) this.blankFrom(place);
    }
  }

  typeDeclaration() {
    const place = this.place;
    const word = this.take().text;
    this.take();
    this.typeParameters();
    if (word === "interface") {
      while (!this.is("{")) this.take();
      this.balanced();
    } else {
      this.expect("=");
      this.type();
      this.endOfStatement();
    }
    this.blankFrom(place);
  }

  ambient() {
    const place = this.place;
    this.take();
    this.statement();
    this.blankFrom(place);
  }

  headed() {
    this.take();
    this.parenthesised();
    this.statement();
  }

  parenthesised() {
    this.expect("(");
    this.expression();
    this.expect(")");
  }

  for() {
    this.take();
    this.accept("await");
    this.expect("(");
    if (["const", "let", "var"].includes(this.token.text)) this.bindings();
    else if (!this.is(";")) this.expression();
    if (this.accept("of") || this.accept("in")) {
      this.expression();
    } else {
      this.expect(";");
      if (!this.is(";")) this.expression();
      this.expect(";");
      if (!this.is(")")) this.expression();
    }
    this.expect(")");
    this.statement();
  }

  try() {
    this.take();
    this.block();
    if (this.accept("catch")) {
      if (this.accept("(")) {
        this.binding();
        this.expect(")");
      }
      this.block();
    }
    if (this.accept("finally")) this.block();
  }

  bindings() {
    this.take();
    do {
      this.binding();
      if (this.accept("=")) this.assignment();
    } while (this.accept(","));
  }

  // A name or a pattern, with its type.
  binding() {
    this.accept("...");
    if (this.is("{")) this.object();
    else if (this.is("[")) this.array();
    else this.take();
    if (this.is("?") || this.is("!")) this.blankOne();
    this.annotation();
  }

  annotation() {
    if (!this.is(":")) return;
    const place = this.place;
    this.take();
    this.type();
    this.blankFrom(place);
  }

  // ---- functions and classes

  isFunction() {
    const next = this.peek();
    return this.is("function") || (this.is("async") && next.text === "function" && !next.lineBefore);
  }

  function() {
    const place = this.place;
    this.accept("async");
    this.expect("function");
    this.accept("*");
    if (!this.is("(") && !this.is("<")) this.take();
    const hasBody = this.signatureAndBody();
    if (!hasBody) this.blankFrom(place);
    return hasBody;
  }

  // False when there is no body: it was only a declaration.
  signatureAndBody() {
    this.typeParameters();
    this.parameters();
    this.annotation();
    if (this.is("{")) {
      this.block();
      return true;
    }
    this.endOfStatement();
    return false;
  }

  parameters() {
    this.expect("(");
    while (!this.accept(")")) {
      if (MODIFIERS.has(this.token.text) && this.peek().kind === "name") this.fail("a parameter property is more than a type");
      const place = this.place;
      const isThis = this.is("this");
      this.binding();
      if (this.accept("=")) this.assignment();
      if (!this.is(")")) this.expect(",");
      if (isThis) this.blankFrom(place);
    }
  }

  typeParameters() {
    if (!this.is("<")) return;
    const place = this.place;
    this.typeArguments();
    this.blankFrom(place);
  }

  class() {
    this.expect("class");
    if (!this.is("{") && !this.is("extends") && !this.is("implements") && !this.is("<")) this.take();
    this.typeParameters();
    if (this.accept("extends")) {
      this.operand();
      this.typeParameters();
    }
    if (this.is("implements")) {
      const place = this.place;
      do {
        this.take();
        this.type();
      } while (this.is(","));
      this.blankFrom(place);
    }
    this.expect("{");
    while (!this.accept("}")) this.member();
  }

  member() {
    if (this.accept(";")) return;
    const place = this.place;
    if (this.is("static") && this.peek().text === "{") {
      this.take();
      return this.block();
    }
    let typeOnly = false;
    const isName = () => ["(", "<", "=", ";", ":", "?", "!", "}"].includes(this.peek().text) && this.peek().kind === "mark";
    while (!isName() && (MODIFIERS.has(this.token.text) || ["static", "async", "get", "set"].includes(this.token.text))) {
      if (["abstract", "declare"].includes(this.token.text)) typeOnly = true;
      if (MODIFIERS.has(this.token.text)) this.blankOne();
      else this.take();
    }
    this.accept("*");
    const isIndex = this.is("[") && this.peek().kind === "name" && this.peek(2).text === ":";
    if (isIndex) typeOnly = true;
    if (isIndex) this.balanced();
    else this.memberName();
    if (this.is("?") || this.is("!")) this.blankOne();
    if (this.is("(") || this.is("<")) {
      if (!this.signatureAndBody()) typeOnly = true;
    } else {
      this.annotation();
      if (this.accept("=")) this.assignment();
      this.endOfStatement();
    }
    if (typeOnly) this.blankFrom(place);
  }

  memberName() {
    if (this.is("[")) this.array();
    else this.take();
  }

  // ---- expressions

  expression() {
    do this.assignment();
    while (this.accept(","));
  }

  // Without a comma. Precedence does not matter: only where operands begin and end.
  assignment() {
    for (;;) {
      this.operand();
      if (this.is("?")) {
        this.take();
        this.assignment();
        this.expect(":");
        continue;
      }
      if (!this.operator()) return;
    }
  }

  // Takes an operator between two operands; false when the expression ends here.
  operator() {
    const { kind, text, lineBefore } = this.token;
    if (kind === "name") {
      if (text === "in" || text === "instanceof") return Boolean(this.take());
      return false;
    }
    if (kind !== "mark" || [")", "]", "}", ";", ",", ":", "=>", "{", "("].includes(text)) return false;
    if (lineBefore && (text === "++" || text === "--" || text === "!")) return false;
    this.take();
    // `>>`, `>=` and the like come as several.
    if (text === ">") while (this.is(">") || this.is("=") || this.is(">=") || this.is("==")) this.take();
    if (text === "<" && this.is("<")) this.take();
    return true;
  }

  operand() {
    while (this.isPrefix()) {
      const { text } = this.take();
      if (text === "yield") this.accept("*");
    }
    this.primary();
    this.postfix();
  }

  isPrefix() {
    const { kind, text } = this.token;
    if (kind === "mark") return ["!", "-", "+", "~", "...", "++", "--"].includes(text);
    if (kind !== "name") return false;
    const next = this.peek();
    const stands = next.kind === "mark" && [")", "]", "}", ";", ",", ".", "=", "=>", ":", "?."].includes(next.text);
    return ["typeof", "void", "delete", "await", "new", "yield"].includes(text) && !stands;
  }

  primary() {
    const { kind, text } = this.token;
    if (kind === "mark") {
      if (text === "(") return this.arrow() || this.parenthesised();
      if (text === "<") return this.arrow() || this.fail("write a cast with as");
      if (text === "[") return this.array();
      if (text === "{") return this.object();
      return this.fail(`"${text}" is not expected`);
    }
    if (kind === "template") return this.template();
    if (kind === "name") {
      if (this.isFunction()) return this.function();
      if (text === "class") return this.class();
      if (text === "async" && !this.peek().lineBefore && this.arrow()) return undefined;
      if (this.peek().text === "=>") {
        this.take();
        this.take();
        return this.body();
      }
    }
    if (kind === "end") this.fail("the source ends too early");
    this.take();
    return undefined;
  }

  // `(a: T): R => …`, when it is one.
  arrow() {
    return this.attempt(() => {
      if (this.is("async")) this.take();
      this.typeParameters();
      if (!this.is("(")) return false;
      this.parameters();
      const { start } = this.token;
      this.annotation();
      const { end } = this.token;
      if (!this.accept("=>")) return false;
      // No line may end before the arrow, so what ended there ends after it.
      const lines = this.source.slice(start, end).replace(/[^\n]/g, "");
      if (lines) this.blanks.push([start, end, ` =>${lines}`]);
      return true;
    }) && (this.body(), true);
  }

  body() {
    if (this.is("{")) this.block();
    else this.assignment();
  }

  postfix() {
    for (;;) {
      const { kind, text, lineBefore } = this.token;
      if (kind === "template") {
        this.template();
      } else if (kind === "name" && (text === "as" || text === "satisfies") && !lineBefore) {
        const place = this.place;
        this.take();
        this.type();
        this.blankFrom(place);
      } else if (kind !== "mark") {
        return;
      } else if (text === "." || text === "?.") {
        this.take();
        if (!this.is("(") && !this.is("[")) this.take();
      } else if (text === "(") {
        this.take();
        while (!this.accept(")")) {
          this.assignment();
          if (!this.is(")")) this.expect(",");
        }
      } else if (text === "[") {
        this.take();
        this.expression();
        this.expect("]");
      } else if (text === "!" && !lineBefore) {
        this.blankOne();
      } else if ((text === "++" || text === "--") && !lineBefore) {
        this.take();
      } else if (text === "<") {
        const isCall = this.attempt(() => {
          this.typeParameters();
          return this.is("(") || this.token.kind === "template";
        });
        if (!isCall) return;
      } else {
        return;
      }
    }
  }

  template() {
    for (const [start, end] of this.take().holes) {
      const inner = new Parser(this.source, this.file, tokenizeRange(this.source, this.file, start, end));
      inner.expression();
      this.blanks.push(...inner.blanks);
    }
  }

  array() {
    this.expect("[");
    while (!this.accept("]")) {
      if (this.accept(",")) continue;
      this.assignment();
      if (!this.is("]")) this.expect(",");
    }
  }

  object() {
    this.expect("{");
    while (!this.accept("}")) {
      if (this.accept("...")) {
        this.assignment();
      } else {
        const stands = () => this.peek().kind === "mark" && ["(", "<", ":", ",", "}", "="].includes(this.peek().text);
        while (["async", "get", "set"].includes(this.token.text) && !stands()) this.take();
        this.accept("*");
        this.memberName();
        if (this.is("(") || this.is("<")) this.signatureAndBody();
        else if (this.accept(":")) this.assignment();
        if (this.accept("=")) this.assignment();
      }
      if (!this.is("}")) this.expect(",");
    }
  }

  // ---- types

  balanced() {
    const pairs = { "(": ")", "[": "]", "{": "}" };
    const open = this.take().text;
    while (!this.is(pairs[open])) {
      if (this.token.kind === "end") this.fail("a bracket is not closed");
      if (this.token.kind === "mark" && this.token.text in pairs) this.balanced();
      else this.take();
    }
    this.take();
  }

  typeArguments() {
    this.expect("<");
    while (!this.accept(">")) {
      for (const word of ["const", "in", "out"]) if (this.is(word) && this.peek().kind === "name") this.take();
      this.type();
      if (this.accept("=")) this.type();
      if (!this.is(">")) this.expect(",");
    }
  }

  type() {
    if (this.is("|") || this.is("&")) this.take();
    this.typeOperand();
    while (this.accept("|") || this.accept("&")) this.typeOperand();
    if (this.is("extends") && !this.token.lineBefore) {
      this.take();
      this.type();
      if (this.accept("?")) {
        this.type();
        this.expect(":");
        this.type();
      }
    } else if (this.is("is") && !this.token.lineBefore) {
      this.take();
      this.type();
    }
  }

  typeOperand() {
    const { kind, text } = this.token;
    const words = ["keyof", "readonly", "unique", "infer", "typeof", "asserts", "abstract"];
    if (kind === "name" && words.includes(text) && this.peek().kind === "name") {
      this.take();
      return this.typeOperand();
    }
    if (kind === "name" && ["keyof", "readonly"].includes(text) && ["(", "[", "{"].includes(this.peek().text)) {
      this.take();
      return this.typeOperand();
    }
    if (kind === "name" && text === "new") this.take();
    if (this.is("<")) this.typeArguments();
    if (this.is("(")) {
      this.balanced();
      if (this.accept("=>")) return this.type();
    } else if (this.is("[") || this.is("{")) {
      this.balanced();
    } else if (this.accept("-")) {
      this.take();
    } else if (["name", "string", "number", "template"].includes(kind)) {
      this.take();
      while (this.is(".")) {
        this.take();
        this.take();
      }
      if (this.is("<") && !this.token.lineBefore) this.typeArguments();
    } else {
      this.fail(`"${text}" is not a type`);
    }
    while (this.is("[") && !this.token.lineBefore) this.balanced();
    return undefined;
  }
}

// The tokens of a part, at the places that they have in the whole.
function tokenizeRange(source, file, start, end) {
  const lines = source.slice(0, start).replace(/[^\n]/g, " ");
  return tokenize(lines + source.slice(start, end), file);
}
