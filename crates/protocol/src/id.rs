//! Prefixed ids that sort by the time they were made, such as `ses_01k9…`. Each kind is its own type, so that a turn's
//! id cannot be passed where a session's is wanted.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::{Generator, Ulid};

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a valid id: expected \"{prefix}_\" followed by 26 letters and digits")]
pub struct ParseIdError {
    text: String,
    prefix: &'static str,
}

fn next() -> Ulid {
    // One generator for the process keeps ids in order even within one millisecond.
    static GENERATOR: Mutex<Option<Generator>> = Mutex::new(None);
    let mut guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let generator = guard.get_or_insert_with(Generator::new);
    // The generator refuses only when 2^80 ids were made in one millisecond.
    generator.generate().unwrap_or_else(|_| Ulid::generate())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// The text before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A new id, later in order than every id this process made before.
            #[allow(clippy::new_without_default)] // a default that differs on each call would surprise
            pub fn new() -> Self {
                Self(next())
            }

            /// How long ago it was made; None when its time is not in the past.
            pub fn age(self) -> Option<std::time::Duration> {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
                now.checked_sub(std::time::Duration::from_millis(self.0.timestamp_ms()))
            }

            /// An id with a fixed value: one that was given out before, or one of golden files and tests.
            pub const fn from_u128(value: u128) -> Self {
                Self(Ulid(value))
            }

            /// The value, to be kept and used again.
            pub const fn to_u128(self) -> u128 {
                self.0.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, self.0.to_string().to_ascii_lowercase())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let error = || ParseIdError { text: text.chars().take(64).collect(), prefix: $prefix };
                let rest = text.strip_prefix(concat!($prefix, "_")).ok_or_else(error)?;
                // Only the form that `Display` writes is accepted, so that an id has one spelling.
                if rest.bytes().any(|b| b.is_ascii_uppercase()) {
                    return Err(error());
                }
                let ulid = Ulid::from_string(&rest.to_ascii_uppercase()).map_err(|_| error())?;
                let id = Self(ulid);
                if id.to_string() == text { Ok(id) } else { Err(error()) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-9a-hjkmnp-tv-z]{26}$")))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

id!(
    /// A session: shared conversation and workspace.
    SessionId, "ses"
);
id!(
    /// A prompt: what a person or a trigger asks.
    PromptId, "prm"
);
id!(
    /// A command that has an idempotency key: it is done once, however often it is sent.
    CommandId, "cmd"
);
id!(
    /// A turn: the work on one prompt.
    TurnId, "trn"
);
id!(
    /// An item: one thing in the conversation.
    ItemId, "itm"
);
id!(
    /// An approval: a human gate in a turn.
    ApprovalId, "apr"
);
id!(
    /// A sandbox: one running isolated machine.
    SandboxId, "sbx"
);
id!(
    /// A snapshot: a frozen session workspace.
    SnapshotId, "snp"
);
id!(
    /// A lineage: one course of a session's log. A restore begins another.
    LineageId, "lin"
);
id!(
    /// A note of the memory.
    NoteId, "mem"
);
id!(
    /// A user.
    UserId, "usr"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_sort_by_creation() {
        let ids: Vec<String> = (0..1000).map(|_| SessionId::new().to_string()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_wrong_prefix_is_refused() {
        let turn = TurnId::new().to_string();
        let error = turn.parse::<SessionId>().unwrap_err().to_string();
        assert!(error.contains("expected \"ses_\""), "{error}");
    }

    proptest! {
        #[test]
        fn display_and_parse_agree(value: u128) {
            let id = ItemId::from_u128(value);
            prop_assert_eq!(id.to_string().parse::<ItemId>().unwrap(), id);
        }

        #[test]
        fn only_the_canonical_spelling_parses(text in "(ses_)?[0-9a-zA-Z]{0,30}") {
            if let Ok(id) = text.parse::<SessionId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
