//! A JSON document in the midst of other output, such as a package manager's words before it.

use serde_json::{Deserializer, Value};

/// How many lines that could begin a document are tried, so that the work stays linear.
const MAX_TRIES: usize = 4;

/// The first document that begins on a line of its own and for which `wanted` holds.
pub(crate) fn embedded(output: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut at = 0;
    let mut tries = 0;
    for line in output.split_inclusive('\n') {
        if line.starts_with(['{', '[']) {
            let mut documents = Deserializer::from_str(&output[at..]).into_iter::<Value>();
            if let Some(Ok(value)) = documents.next()
                && wanted(&value)
            {
                return Some(value);
            }
            tries += 1;
            if tries == MAX_TRIES {
                return None;
            }
        }
        at += line.len();
    }
    None
}

/// The text at this pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// The number at this pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<u32> {
    value.pointer(pointer).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
}
