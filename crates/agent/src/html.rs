//! HTML as text that a model reads: words in their order, with headings, lists, links, tables and code. No parser of the
//! standard: every page is read in one go, in linear time, and one that is broken gives what can be read of it.

/// Elements whose text nobody reads.
const SILENT: [&str; 9] =
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "head", "math"];
/// Elements whose content is no markup.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "html",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "thead",
    "tr",
    "ul",
];
/// Deepest nesting of lists that is shown.
const DEEPEST: usize = 8;
/// Longest address of a link that is shown; longer ones are data and trackers.
const ADDRESS: usize = 300;

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its title; empty where it has none.
    pub(crate) title: String,
    /// What it says.
    pub(crate) text: String,
}

/// Reads a page. Links are given as they are resolved against the page's own address by `resolve`; those that it gives
/// nothing for are left out.
pub(crate) fn page(html: &str, resolve: &dyn Fn(&str) -> Option<String>) -> Page {
    let mut reader = Reader {
        resolve,
        page: Page::default(),
        out: Out::default(),
        silent: None,
        lists: Vec::new(),
        links: Vec::new(),
    };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        reader.words(&rest[..at]);
        rest = &rest[at..];
        rest = match token(rest) {
            Some((tag, after)) => reader.tag(&tag, after),
            None => {
                reader.words("<");
                &rest[1..]
            }
        };
    }
    reader.words(rest);
    reader.page.text = reader.out.finish();
    reader.page
}

/// A tag, or what is to be skipped.
struct Tag<'a> {
    /// Empty for comments and declarations.
    name: String,
    closes: bool,
    attributes: &'a str,
}

/// The tag at the beginning of a text, and what comes after it.
fn token(text: &str) -> Option<(Tag<'_>, &str)> {
    let skip = |end: usize| Some((Tag { name: String::new(), closes: false, attributes: "" }, &text[end..]));
    if let Some(comment) = text.strip_prefix("<!--") {
        return skip(comment.find("-->").map_or(text.len(), |end| 4 + end + 3));
    }
    if text.starts_with("<!") || text.starts_with("<?") {
        return skip(text.find('>').map_or(text.len(), |end| end + 1));
    }
    let closes = text.starts_with("</");
    let begin = if closes { 2 } else { 1 };
    let inner = &text[begin..];
    let length =
        inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != ':').unwrap_or(inner.len());
    if length == 0 || !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let mut quote: Option<u8> = None;
    for (at, byte) in inner.bytes().enumerate().skip(length) {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if inner.as_bytes()[at - 1] == b'=' => quote = Some(byte),
            (None, b'>') => {
                let name = inner[..length].to_ascii_lowercase();
                return Some((Tag { name, closes, attributes: &inner[length..at] }, &inner[at + 1..]));
            }
            (None, _) => {}
        }
    }
    // It never ends: nothing of it is text.
    skip(text.len())
}

/// The value of an attribute.
fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '=' || c == '/').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end.max(1).min(rest.len()));
        let after = after.trim_start();
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(decoded(value));
        }
        rest = after;
    }
}

struct Reader<'a> {
    resolve: &'a dyn Fn(&str) -> Option<String>,
    page: Page,
    out: Out,
    /// The element that is skipped, and how many of its name are open.
    silent: Option<(String, usize)>,
    /// The lists that are open: the next number of each, or none for those without.
    lists: Vec<Option<u64>>,
    /// The links that are open: where each leads, and where its words begin.
    links: Vec<(Option<String>, usize)>,
}

impl Reader<'_> {
    fn words(&mut self, text: &str) {
        if self.silent.is_none() {
            self.out.words(&decoded(text));
        }
    }

    /// Takes in a tag; gives what is to be read next.
    fn tag<'b>(&mut self, tag: &Tag<'_>, after: &'b str) -> &'b str {
        let Tag { name, closes, attributes } = tag;
        let raw = !closes && RAW.contains(&name.as_str());
        let (content, rest) = if raw { until_closed(after, name) } else { ("", after) };
        if name == "title" && raw && self.page.title.is_empty() {
            self.page.title = decoded(content).split_whitespace().collect::<Vec<_>>().join(" ");
        }
        if let Some((skipped, depth)) = &mut self.silent {
            // A page that does not close its head has a body all the same.
            let same = skipped.as_str() == name.as_str();
            let ends = skipped.as_str() == "head" && name == "body" && !closes;
            if ends || (same && *closes && *depth == 1) {
                self.silent = None;
            } else if same && !raw {
                *depth = if *closes { *depth - 1 } else { *depth + 1 };
            }
            if !ends {
                return rest;
            }
        }
        if SILENT.contains(&name.as_str()) {
            if !closes && !raw && !attributes.trim_end().ends_with('/') {
                self.silent = Some((name.clone(), 1));
            }
            return rest;
        }
        if raw {
            return rest;
        }
        if *closes {
            self.close(name)
        } else {
            self.open(name, attributes)
        }
        rest
    }

    fn open(&mut self, name: &str, attributes: &str) {
        match name {
            "br" => self.out.line(1),
            "hr" => self.out.line(2),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.out.line(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.out.mark(&format!("{} ", "#".repeat(level)));
            }
            "ul" | "ol" => {
                self.out.line(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push((name == "ol").then_some(1));
            }
            "li" => {
                self.out.line(1);
                let depth = self.lists.len().saturating_sub(1).min(DEEPEST);
                let bullet = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let bullet = format!("{number}. ");
                        *number = number.saturating_add(1);
                        bullet
                    }
                    Some(None) | None => "- ".to_owned(),
                };
                self.out.mark(&format!("{}{bullet}", "  ".repeat(depth)));
            }
            "pre" => {
                self.out.line(2);
                self.out.mark("```\n");
                self.out.as_written += 1;
            }
            "code" | "kbd" | "samp" if self.out.as_written == 0 => self.out.join("`"),
            "td" | "th" => self.out.cell(),
            "tr" => self.out.line(1),
            "a" => {
                let to = attribute(attributes, "href").and_then(|to| (self.resolve)(&to));
                let to = to.filter(|to| to.len() <= ADDRESS);
                self.links.push((to, self.out.text.len()));
            }
            "img" => {
                if let Some(alt) = attribute(attributes, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.out.words(&format!("[image: {}]", alt.trim()));
                }
            }
            name if BLOCKS.contains(&name) => self.out.line(if name == "p" { 2 } else { 1 }),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.out.line(2),
            "ul" | "ol" => {
                self.lists.pop();
                self.out.line(if self.lists.is_empty() { 2 } else { 1 });
            }
            "pre" if self.out.as_written > 0 => {
                self.out.as_written -= 1;
                self.out.line(1);
                self.out.mark("```");
                self.out.line(2);
            }
            "code" | "kbd" | "samp" if self.out.as_written == 0 => self.out.join("`"),
            "a" => {
                if let Some((Some(to), begin)) = self.links.pop() {
                    let said = self.out.text.get(begin..).unwrap_or_default().trim();
                    if !said.is_empty() && said != to {
                        self.out.join(&format!(" ({to})"));
                    }
                }
            }
            "table" | "p" => self.out.line(2),
            name if BLOCKS.contains(&name) => self.out.line(1),
            _ => {}
        }
    }
}

/// What an element that has no markup in it contains, and what comes after its end.
fn until_closed<'a>(text: &'a str, name: &str) -> (&'a str, &'a str) {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let at = from + at;
        let inner = &text[at + 2..];
        let is_it = inner.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_it && !inner[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let end = inner.find('>').map_or(text.len(), |end| at + 2 + end + 1);
            return (&text[..at], &text[end..]);
        }
        from = at + 2;
    }
    (text, "")
}

/// The text so far. Blanks and ends of lines are only written when something follows them.
#[derive(Default)]
struct Out {
    text: String,
    blank: bool,
    lines: usize,
    /// How many elements are open in which blanks count.
    as_written: usize,
}

impl Out {
    fn words(&mut self, text: &str) {
        if self.as_written > 0 {
            self.flush();
            self.text.push_str(&text.replace('\r', ""));
            return;
        }
        for (index, word) in text.split(|c: char| c.is_whitespace() || c == '\u{200b}').enumerate() {
            self.blank |= index > 0;
            if !word.is_empty() {
                self.flush();
                self.text.push_str(word);
            }
        }
    }

    /// Text at the beginning of a line, whose own blanks stay.
    fn mark(&mut self, text: &str) {
        self.blank = false;
        self.flush();
        self.text.push_str(text);
    }

    /// Text that belongs to what stands before it.
    fn join(&mut self, text: &str) {
        let closing = !self.blank && self.lines == 0;
        if !closing {
            self.flush();
        }
        self.text.push_str(text);
    }

    fn cell(&mut self) {
        if self.lines == 0 && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.blank = false;
            self.text.push_str(" | ");
        }
    }

    fn line(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
        self.blank = false;
    }

    fn flush(&mut self) {
        if self.lines > 0 && !self.text.is_empty() {
            let ends = self.text.len() - self.text.trim_end_matches('\n').len();
            (ends..self.lines).for_each(|_| self.text.push('\n'));
        } else if self.blank && !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
        (self.blank, self.lines) = (false, 0);
    }

    fn finish(self) -> String {
        self.text.trim().to_owned()
    }
}

/// A text with its entities as the letters that they are.
fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest name that is known has eight letters.
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(&rest[1..end])?, end))) {
            Some((letter, end)) => {
                out.push(letter);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|letter| !letter.is_control() || letter.is_whitespace());
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" | "ensp" | "emsp" | "thinsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "laquo" => '«',
        "raquo" => '»',
        "bull" => '•',
        "middot" => '·',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "deg" => '°',
        "plusmn" => '±',
        "times" => '×',
        "larr" => '←',
        "rarr" => '→',
        "euro" => '€',
        "pound" => '£',
        "sect" => '§',
        "para" => '¶',
        "shy" => '\u{ad}',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "Auml" => 'Ä',
        "Ouml" => 'Ö',
        "Uuml" => 'Ü',
        "szlig" => 'ß',
        "eacute" => 'é',
        "egrave" => 'è',
        "agrave" => 'à',
        "ccedil" => 'ç',
        "ntilde" => 'ñ',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(html: &str) -> String {
        page(html, &|to| Some(to.to_owned())).text
    }

    #[test]
    fn a_page_is_read_as_a_person_reads_it() {
        let html = r#"<!DOCTYPE html><html><head><title>A &amp; B</title><style>p{}</style>
            <script>if (a < b) { x = "</p>" }</script></head><body><nav><a href="/">Home</a></nav>
            <h1>Hello&nbsp;there</h1><p>One <b>two</b>
              three<br>four.</p><!-- <p>hidden</p> --><ul><li>a<ol><li>b</li><li>c</li></ol></li><li>d</ul>
            <pre><code class="x">fn main() {
    run()
}</code></pre><p>Use <code>cargo</code>, see <a href="/docs?a=1&amp;b=2">the docs</a>.</p>
            <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table><img alt="A cat" src=x>"#;
        let page = page(html, &|to| Some(format!("https://x.test{to}")));
        assert_eq!(page.title, "A & B");
        insta::assert_snapshot!(page.text, @r"
        Home (https://x.test/)

        # Hello there

        One two three
        four.

        - a
          1. b
          2. c
        - d

        ```
        fn main() {
            run()
        }
        ```

        Use `cargo`, see the docs (https://x.test/docs?a=1&b=2).

        k | v
        1 | 2

        [image: A cat]
        ");
    }

    #[test]
    fn what_is_broken_gives_what_can_be_read() {
        assert_eq!(text("a < b & c &unknown; &#x41;&#66;"), "a < b & c &unknown; AB");
        assert_eq!(text("one<p>two<div>three"), "one\n\ntwo\nthree");
        assert_eq!(text("<head><title>x</title><body>words"), "words");
        assert_eq!(text("<a href='x>y'>z</a>"), "z (x>y)");
        assert_eq!(text("before<script>never closed <p>x"), "before");
        assert_eq!(text("before<a href=\"never closed <p>x"), "before");
        assert_eq!(text("<svg><path d='x'/><text>no</text></svg>yes</b></ul></a></pre>"), "yes");
        assert_eq!(text("&#27;[2J&#0;x"), "&#27;[2J&#0;x", "nothing that a terminal would obey");
    }

    #[test]
    fn links_that_lead_nowhere_are_words() {
        let page = page("<a href='javascript:x'>click</a> <a>plain</a>", &|_| None);
        assert_eq!(page.text, "click plain");
        let long = format!("<a href='{}'>far</a>", "x".repeat(400));
        assert_eq!(text(&long), "far");
    }

    #[test]
    fn a_hostile_page_is_read_in_one_go() {
        for piece in ["<", "<a ", "<a href=\"", "<!--", "<ul><li>", "<pre>", "&", "</", "<script>", "<svg>"] {
            // What is not linear does not come to an end here.
            let html = piece.repeat(2_000_000 / piece.len());
            assert!(text(&html).len() <= 4 * html.len(), "{piece}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(html in "([a-c<>/=\"'&;# é\n]|<a href=|<p|</p>|<pre>|<script|</script>|<!--|-->|&#x){0,80}") {
            drop(text(&html));
        }
    }
}
