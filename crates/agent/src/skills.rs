//! Skills: what a folder's `SKILL.md` says, and how the model is told which there are. Only names and descriptions stand in
//! the instructions; the body is read when the model asks for it.

/// Longest name.
const NAME: usize = 64;
/// Most characters of a description in the list.
const DESCRIPTION: usize = 400;
/// Most bytes of the whole list.
const LIST: usize = 8 * 1024;

/// A skill as its file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called.
    pub name: String,
    /// What it is for, on one line.
    pub description: String,
    /// What the model reads when it loads it.
    pub body: String,
}

/// Reads a `SKILL.md`: front matter between two lines `---` with a name and a description, then the body. The error says what
/// is wrong with it.
pub fn parse(text: &str) -> Result<Skill, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Err(
            "it does not begin with a line `---`, after which its name and description stand".to_owned()
        );
    }
    let mut matter = Vec::new();
    let mut closed = false;
    for line in lines.by_ref() {
        if line.trim_end() == "---" {
            closed = true;
            break;
        }
        matter.push(line);
    }
    if !closed {
        return Err("its front matter has no end: a line `---` is missing".to_owned());
    }
    let field = |key: &str| value(&matter, key).filter(|value| !value.is_empty());
    let name = field("name").ok_or("its front matter has no `name`")?;
    if !is_name(&name) {
        return Err(format!(
            "\"{}\" is no name for a skill: use up to {NAME} letters, digits, dots, dashes and underscores",
            name.escape_debug()
        ));
    }
    let description = field("description").ok_or("its front matter has no `description`")?;
    let body: Vec<&str> = lines.collect();
    Ok(Skill { name, description, body: body.join("\n").trim().to_owned() })
}

/// Whether a skill can be called so. It becomes the name of a directory.
fn is_name(name: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    name.len() <= NAME
        && name.chars().all(good)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// The value of a key of the outermost level, on one line. Of YAML this knows what front matter is written in: plain and quoted
/// words, words that go on in indented lines, and the blocks `|` and `>`.
fn value(lines: &[&str], key: &str) -> Option<String> {
    let (at, first) = lines.iter().enumerate().find_map(|(at, line)| Some((at, after_key(line, key)?)))?;
    let first = first.trim();
    let goes_on = |line: &&&str| line.trim().is_empty() || line.starts_with([' ', '\t']);
    let rest = lines[at + 1..].iter().take_while(goes_on).map(|line| line.trim());
    let block = first.starts_with(['|', '>']);
    let words: Vec<&str> = (!block).then_some(first).into_iter().chain(rest).collect();
    let joined = words.iter().flat_map(|words| words.split_whitespace()).collect::<Vec<_>>().join(" ");
    Some(if block { joined } else { unquoted(&joined) })
}

/// What a line of the outermost level has after a key, which may be in quotes and have spaces after it.
fn after_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = match line.chars().next()? {
        quote @ ('"' | '\'') => line[1..].strip_prefix(key)?.strip_prefix(quote)?,
        _ => line.strip_prefix(key)?,
    };
    rest.trim_start_matches([' ', '\t']).strip_prefix(':')
}

fn unquoted(text: &str) -> String {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let mut said = String::new();
            let mut letters = inner.chars().peekable();
            while let Some(letter) = letters.next() {
                match letter {
                    '\\' if quote == '"' => said.extend(letters.next()),
                    // In single quotes a quote is written twice.
                    '\'' if quote == '\'' && letters.peek() == Some(&'\'') => said.extend(letters.next()),
                    letter if letter == quote => return said,
                    letter => said.push(letter),
                }
            }
        }
    }
    // A comment stands after a space.
    text.split(" #").next().unwrap_or(text).trim_end().to_owned()
}

/// A skill in the list that the model is told.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is for.
    pub description: &'a str,
    /// Where its files are in the sandbox.
    pub place: &'a str,
}

/// What the instructions say of the skills, the same bytes for the same skills. Nothing without any. What does not fit is told
/// by name, and then by number.
pub fn list(skills: &[Listed<'_>]) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Skills\nThese tell how some kinds of work are done here. Before such work, load the skill by its name with the tool skill; without that tool, read the SKILL.md in its folder.",
    );
    let mut left_out = 0;
    for Listed { name, description, place } in skills {
        let mut short: String = description.chars().take(DESCRIPTION).collect();
        if short.len() < description.len() {
            short.push('…');
        }
        let line = format!("\n- {name} ({place}): {short}");
        let by_name = format!("\n- {name} ({place})");
        match LIST.saturating_sub(text.len()) {
            room if room >= line.len() => text.push_str(&line),
            room if room >= by_name.len() => text.push_str(&by_name),
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        text.push_str(&format!(
            "\n({left_out} more are left out; people can make the descriptions shorter.)"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_has_a_name_a_description_and_a_body() {
        let skill = parse("---\nname: deploy\ndescription: Ships it.\n---\n\n# Deploy\nDo this.\n").unwrap();
        assert_eq!((skill.name.as_str(), skill.description.as_str()), ("deploy", "Ships it."));
        assert_eq!(skill.body, "# Deploy\nDo this.");
        let cases = [
            ("description: \"Say \\\"hi\\\": now\" # not this", "Say \"hi\": now"),
            ("description: 'It''s so'", "It's so"),
            ("description: plain words # a remark", "plain words"),
            ("description: >-\n  folded\n  over lines", "folded over lines"),
            ("description: |\n  a block\n\n  of lines", "a block of lines"),
            ("description: begins here\n  and goes on", "begins here and goes on"),
            ("\"description\": quoted: key", "quoted: key"),
            ("'description' : \"so, too\"", "so, too"),
            ("description  :\n  on the next line", "on the next line"),
            ("descriptions: not this\ndescription\t: this", "this"),
        ];
        for (written, said) in cases {
            let text = format!("---\r\nmetadata:\n  name: inner\n{written}\nname: a\nversion: 1\n---\nx");
            let skill = parse(&text).unwrap();
            assert_eq!((skill.description.as_str(), skill.name.as_str()), (said, "a"), "{written}");
        }
    }

    #[test]
    fn what_is_broken_is_told_with_its_reason() {
        let cases = [
            ("# Deploy", "does not begin with"),
            ("---\nname: a", "has no end"),
            ("---\nname: a\n---\n", "no `description`"),
            ("---\ndescription: a\n---\n", "no `name`"),
            ("---\nnames: a\n'name: b\n name: c\ndescription: a\n---\n", "no `name`"),
            ("---\nname: ../a\ndescription: b\n---\n", "is no name for a skill"),
            ("---\nname: .a\ndescription: b\n---\n", "is no name for a skill"),
            ("", "does not begin with"),
        ];
        for (text, why) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_list_is_bounded_and_says_what_it_leaves_out() {
        assert_eq!(list(&[]), "");
        let description = "d".repeat(1000);
        let names: Vec<String> = (0..300).map(|n| format!("skill-{n}")).collect();
        let skills: Vec<Listed<'_>> = names
            .iter()
            .map(|name| Listed { name, description: &description, place: "/workspace/.claude/skills/x" })
            .collect();
        let text = list(&skills);
        assert!(text.len() <= LIST + 100 && text.ends_with("shorter.)"), "{} bytes", text.len());
        assert!(text.contains("- skill-0 (/workspace") && text.contains("d…\n"), "{text}");
        assert_eq!(text, list(&skills));
    }
}
