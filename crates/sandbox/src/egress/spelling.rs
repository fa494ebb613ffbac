//! How a value is spelled in HTML and in numbers, as servers do when they show what they were sent.

/// With fewer bytes, a value in hexadecimal digits would be found by chance.
const FEWEST: usize = 6;

/// What a byte becomes; None if it stays.
type Spell = fn(u8) -> Option<String>;

/// Every character by its number in HTML, in a URL or in a string of a program.
const NUMBERED: [Spell; 7] = [
    |byte| Some(format!("&#{byte};")),
    |byte| Some(format!("&#x{byte:x};")),
    |byte| Some(format!("&#x{byte:X};")),
    |byte| Some(format!("%{byte:02x}")),
    |byte| Some(format!("%{byte:02X}")),
    |byte| Some(format!("\\x{byte:02x}")),
    |byte| Some(format!("\\x{byte:02X}")),
];

/// What the characters that mean something in HTML become. Nobody agrees on quotes and apostrophes.
const QUOTES: [&str; 3] = ["\"", "&quot;", "&#34;"];
const APOSTROPHES: [&str; 5] = ["'", "&#39;", "&#x27;", "&apos;", "&#039;"];

/// What a slash, an equals sign and a backtick become: nothing, as template languages have it, and by decimal numbers.
const OTHERS: [[&str; 3]; 5] = [
    ["/", "=", "`"],
    ["&#x2F;", "&#x3D;", "&#x60;"],
    ["/", "&#x3D;", "&#x60;"],
    ["&#x2f;", "&#x3d;", "&#x60;"],
    ["&#47;", "&#61;", "&#96;"],
];

/// What stays as it is in a URL, besides letters and digits: by the standard, in a path, in a component and in a whole URL as
/// JavaScript has them, and in a form.
const PLAIN: [&[u8]; 5] = [b"-._~", b"-._~/", b"-._~!*'()", b"-._~!*'();,/?:@&=+$#", b"-._*"];

/// The spellings. A value in which nothing is escaped has several that are alike.
pub(super) fn all(value: &[u8]) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    for spell in NUMBERED {
        found.push(spelled(value, spell));
        found.push(spelled(value, |byte| if byte.is_ascii_alphanumeric() { None } else { spell(byte) }));
    }
    for plain in PLAIN {
        let stays = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
        for hex in [|byte| format!("%{byte:02x}"), |byte| format!("%{byte:02X}")] as [fn(u8) -> String; 2] {
            found.push(spelled(value, |byte| (!stays(byte)).then(|| hex(byte))));
            // A form has a plus for a space.
            let form = |byte| if byte == b' ' { "+".to_owned() } else { hex(byte) };
            found.push(spelled(value, |byte| (!stays(byte)).then(|| form(byte))));
        }
    }
    for quote in QUOTES {
        for apostrophe in APOSTROPHES {
            for others in &OTHERS {
                found.push(spelled(value, |byte| html(byte, quote, apostrophe, others)));
            }
        }
    }
    if value.len() >= FEWEST {
        found.push(value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
        found.push(value.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect());
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn html(byte: u8, quote: &str, apostrophe: &str, [slash, equals, backtick]: &[&str; 3]) -> Option<String> {
    let text = match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => quote,
        b'\'' => apostrophe,
        b'/' => slash,
        b'=' => equals,
        b'`' => backtick,
        _ => return None,
    };
    Some(text.to_owned())
}

fn spelled(value: &[u8], spell: impl Fn(u8) -> Option<String>) -> Vec<u8> {
    value.iter().flat_map(|byte| spell(*byte).map_or_else(|| vec![*byte], String::into_bytes)).collect()
}
