//! Output that is no text is told and not shown: it would cost a model many tokens and say nothing.

/// Lines between two that are no text belong to them if they are no longer than this.
const BETWEEN: usize = 80;

/// Bytes as the model reads them: what is no text is named with its size.
pub fn readable(bytes: &[u8]) -> String {
    // One such byte in all is a letter in an old encoding.
    if strange(bytes) <= 1 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut text = String::new();
    // What is no text, and lines after it that may belong to it.
    let (mut left_out, mut doubtful): (usize, Vec<&[u8]>) = (0, Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_binary(line) {
            left_out += doubtful.drain(..).map(<[u8]>::len).sum::<usize>() + line.len();
        } else if left_out > 0 && line.len() <= BETWEEN && doubtful.is_empty() {
            doubtful.push(line);
        } else {
            tell(&mut text, &mut left_out);
            doubtful.drain(..).chain([line]).for_each(|line| text.push_str(&String::from_utf8_lossy(line)));
        }
    }
    tell(&mut text, &mut left_out);
    doubtful.into_iter().for_each(|line| text.push_str(&String::from_utf8_lossy(line)));
    text
}

/// Whether a text is none: more than a tenth of its bytes are none of a text.
pub fn is_binary(bytes: &[u8]) -> bool {
    strange(bytes) * 10 > bytes.len()
}

/// Bytes that no text has. Colours, bells and progress bars of terminals are text.
fn strange(bytes: &[u8]) -> usize {
    let control = |byte: &&u8| matches!(byte, 0..=6 | 14..=26 | 28..=31 | 127);
    bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum::<usize>()
        + bytes.iter().filter(control).count()
}

fn tell(text: &mut String, left_out: &mut usize) {
    if *left_out > 0 {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{left_out} bytes that are no text]\n"));
        *left_out = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_and_what_is_none_is_named() {
        for text in
            ["", "plain\n", "é – \u{1b}[31mred\u{1b}[0m\r\n", "50%\r100%\n", "src/main.rs\0src/library.rs\0"]
        {
            assert_eq!(readable(text.as_bytes()), text, "{text:?}");
        }
        assert_eq!(
            readable(b"caf\xe9 au lait, which is Latin-1\n"),
            "caf\u{fffd} au lait, which is Latin-1\n"
        );
        let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".as_slice(), &[0xff, 0x00, 0x10].repeat(50)].concat();
        let size = png.len();
        assert_eq!(readable(&png), format!("[{size} bytes that are no text]\n"));
        let mixed = [
            b"before\n".as_slice(),
            &png,
            b"\nab\n",
            &png,
            b"\nafter, in a line that is long enough to be one of its own, and so is shown as it is\n",
        ]
        .concat();
        let told = readable(&mixed);
        assert!(
            told.starts_with(&format!("before\n[{} bytes that are no text]\nafter, in", 2 * size + 5)),
            "{told}"
        );
        let short = readable(&[png.as_slice(), b"\n(done)\n"].concat());
        assert!(short.ends_with("no text]\n(done)\n"), "{short}");
    }

    proptest! {
        #[test]
        fn nothing_is_too_odd_and_text_is_never_touched(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[ -~é\n]{0,200}") {
            drop(readable(&bytes));
            prop_assert_eq!(readable(text.as_bytes()), text);
        }
    }
}
