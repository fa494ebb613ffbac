//! Calls as some models write them: in the syntax of Python. Only calls with plain values are understood, and a text is calls as
//! a whole or not at all.

use serde_json::{Map, Number, Value};

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) tool: String,
    /// Those that have no name, in order.
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Map<String, Value>,
}

/// The calls that a text consists of: one or several, in brackets or on lines of their own.
pub(crate) fn calls(text: &str) -> Option<Vec<Written>> {
    let text = text.trim();
    let listed = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let mut reader = Reader { rest: listed.unwrap_or(text), depth: 0 };
    let mut found = Vec::new();
    loop {
        reader.skip();
        if reader.rest.is_empty() {
            return (!found.is_empty()).then_some(found);
        }
        found.push(reader.call()?);
        reader.skip();
        if !reader.eat(",") {
            reader.eat(";");
        }
    }
}

/// What is left to be read.
struct Reader<'a> {
    rest: &'a str,
    /// Brackets around it.
    depth: usize,
}

/// Most brackets around a value.
const DEPTH: usize = 32;

impl<'a> Reader<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, mark: &str) -> bool {
        let left = self.rest.strip_prefix(mark);
        self.rest = left.unwrap_or(self.rest);
        left.is_some()
    }

    /// The next character that is not white space must be this.
    fn expect(&mut self, mark: &str) -> Option<()> {
        self.skip();
        self.eat(mark).then_some(())
    }

    fn word(&mut self) -> Option<&'a str> {
        let inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        let end = self.rest.find(|letter| !inside(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_').then_some(word)
    }

    /// One bracket further in; None where nobody would go.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let found = if self.depth > DEPTH { None } else { read(self) };
        self.depth -= 1;
        found
    }

    /// `name(…)`, also as `module.name(…)`, `name.call(…)` or printed.
    fn call(&mut self) -> Option<Written> {
        self.skip();
        let word = self.word()?;
        self.expect("(")?;
        if word == "print" {
            let call = self.deeper(Self::call)?;
            self.expect(")")?;
            return Some(call);
        }
        let plain =
            ["default_api.", "functions.", "tools."].iter().find_map(|before| word.strip_prefix(before));
        let tool = plain.unwrap_or(word);
        let tool = tool.strip_suffix(".call").unwrap_or(tool).to_owned();
        let (mut positional, mut named) = (Vec::new(), Map::new());
        loop {
            self.skip();
            if self.eat(")") {
                return Some(Written { tool, positional, named });
            }
            match self.name() {
                Some(name) => {
                    let value = self.value()?;
                    named.insert(name, value);
                }
                None if named.is_empty() => positional.push(self.value()?),
                None => return None,
            }
            self.skip();
            if !self.eat(",") {
                self.expect(")")?;
                return Some(Written { tool, positional, named });
            }
        }
    }

    /// The name of an argument with the sign after it.
    fn name(&mut self) -> Option<String> {
        let before = self.rest;
        if let Some(word) = self.word()
            && self.expect("=").is_some()
            && !self.rest.starts_with('=')
        {
            return Some(word.to_owned());
        }
        self.rest = before;
        None
    }

    fn value(&mut self) -> Option<Value> {
        self.skip();
        match self.rest.chars().next()? {
            '"' | '\'' => self.text(false),
            'r' | 'R' if self.rest[1..].starts_with(['"', '\'']) => {
                self.rest = &self.rest[1..];
                self.text(true)
            }
            '[' => {
                let mut values = Vec::new();
                self.eat("[");
                while self.expect("]").is_none() {
                    values.push(self.deeper(Self::value)?);
                    self.skip();
                    if !self.eat(",") {
                        self.expect("]")?;
                        break;
                    }
                }
                Some(Value::Array(values))
            }
            '{' => {
                let mut object = Map::new();
                self.eat("{");
                while self.expect("}").is_none() {
                    let Value::String(name) = self.deeper(Self::value)? else { return None };
                    self.expect(":")?;
                    object.insert(name, self.deeper(Self::value)?);
                    self.skip();
                    if !self.eat(",") {
                        self.expect("}")?;
                        break;
                    }
                }
                Some(Value::Object(object))
            }
            letter if letter.is_ascii_digit() || letter == '-' => {
                let end = self.rest[1..].find(|next: char| !next.is_ascii_digit() && next != '.');
                let (number, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
                self.rest = rest;
                number.parse::<Number>().ok().map(Value::Number)
            }
            _ => match self.word()? {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "null" => Some(Value::Null),
                _ => None,
            },
        }
    }

    /// A text in quotes, and those right after it.
    fn text(&mut self, raw: bool) -> Option<Value> {
        let mut text = String::new();
        loop {
            let mark = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|mark| self.rest.starts_with(mark))?;
            self.eat(mark);
            self.quoted(mark, raw, &mut text)?;
            self.skip();
            if !self.rest.starts_with(['"', '\'']) {
                return Some(Value::String(text));
            }
        }
    }

    /// What stands before this mark.
    fn quoted(&mut self, mark: &str, raw: bool, text: &mut String) -> Option<()> {
        while !self.eat(mark) {
            let mut letters = self.rest.chars();
            let letter = letters.next()?;
            if letter == '\n' && mark.len() == 1 {
                return None;
            }
            if letter != '\\' {
                text.push(letter);
            } else {
                let escaped = letters.next()?;
                match escaped {
                    _ if raw => text.extend(['\\', escaped]),
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    '\\' | '\'' | '"' => text.push(escaped),
                    '\n' => {}
                    'x' | 'u' => {
                        let length = if escaped == 'x' { 2 } else { 4 };
                        let code: String = letters.by_ref().take(length).collect();
                        text.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                    }
                    // No escape at all.
                    other => text.extend(['\\', other]),
                }
            }
            self.rest = letters.as_str();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Option<Vec<(String, Value)>> {
        let all = calls(text)?;
        Some(all.into_iter().map(|call| (call.tool, Value::Object(call.named))).collect())
    }

    #[test]
    fn calls_are_read_with_their_values() {
        let ls = Some(vec![("shell".to_owned(), json!({"command": "ls"}))]);
        for text in [
            "shell(command=\"ls\")",
            "[shell(command='ls')]",
            " shell( command = 'l' 's', ) ",
            "print(default_api.shell(command=\"ls\"))",
            "shell.call(command=\"ls\")",
            "functions.shell(command='''ls''');",
        ] {
            assert_eq!(read(text), ls, "{text}");
        }
        let odd = r#"write(path='a', content="""x = "1"
é\n\d\u00e9""", n=-1.5, ok=True, no=None, more=[1, {'a': 'b'}])"#;
        let meant = json!({"path": "a", "content": "x = \"1\"\né\n\\dé", "n": -1.5, "ok": true, "no": null, "more": [1, {"a": "b"}]});
        assert_eq!(read(odd), Some(vec![("write".into(), meant)]));
        let two = read("[list(), read(path=r'a\\b')]").unwrap();
        assert_eq!(two[1].1, json!({"path": "a\\b"}));
        assert_eq!(read("list()\nread(path='a')").unwrap().len(), 2);
        assert_eq!(calls("shell('ls', 5)").unwrap()[0].positional, [json!("ls"), json!(5)]);
    }

    #[test]
    fn what_is_code_and_no_plain_call_is_not_read() {
        for text in [
            "x = shell(command='ls')",
            "shell(command=run)",
            "shell(command=f'{x}')",
            "shell(command='ls').text",
            "shell(command='ls') # looks",
            "shell(command='ls",
            "shell(a='x', 'y')",
            "import os\nshell(command='ls')",
            "shell",
            "[]",
            "",
        ] {
            assert_eq!(calls(text), None, "{text}");
        }
        assert_eq!(calls(&format!("shell(a={}", "[".repeat(100_000))), None);
        assert_eq!(calls(&"print(".repeat(100_000)), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([a-c(){}\\[\\]=,:\"'\\\\é\n 1-]|r'|print\\(|\"\"\"){0,40}") {
            let _found = calls(&text);
        }
    }
}
