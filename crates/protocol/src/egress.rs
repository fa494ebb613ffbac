//! What of the network a sandbox can reach, as it is written in a recipe.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What of the network a sandbox can reach. In a recipe: `"none"`, `"open"`, or a list of rules such as
/// `["registry.npmjs.org", "*.github.com", "db.example.com:5432"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    /// No network beside loopback.
    None,
    /// Every public address.
    Open,
    /// Only these: a host, `*.` and a domain for every host below it, and, after a colon, a port or `*`; ports 80 and 443
    /// when there is none. Everything else is refused, and told.
    Allow(Vec<String>),
}

impl Default for Egress {
    fn default() -> Self {
        Self::Allow(Vec::new())
    }
}

impl Egress {
    /// Whether this is what a recipe has that says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Egress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Open => serializer.serialize_str("open"),
            Self::Allow(rules) => rules.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Egress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Egress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"open\" or a list of domains")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Egress, E> {
                match text {
                    "none" => Ok(Egress::None),
                    "open" => Ok(Egress::Open),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Egress, A::Error> {
                let mut rules = Vec::new();
                while let Some(rule) = list.next_element()? {
                    rules.push(rule);
                }
                Ok(Egress::Allow(rules))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Egress {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
        let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["none", "open"]));
        let rule = ObjectBuilder::new().schema_type(Type::String);
        OneOfBuilder::new().item(word).item(ArrayBuilder::new().items(rule)).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Egress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lists_are_read_and_written_alike() {
        for (text, egress) in [
            ("\"none\"", Egress::None),
            ("\"open\"", Egress::Open),
            ("[\"*.example.com:443\"]", Egress::Allow(vec!["*.example.com:443".to_owned()])),
            ("[]", Egress::default()),
        ] {
            assert_eq!(serde_json::from_str::<Egress>(text).unwrap(), egress);
            assert_eq!(serde_json::to_string(&egress).unwrap(), text);
        }
        let error = serde_json::from_str::<Egress>("\"all\"").unwrap_err().to_string();
        assert!(error.contains("\"none\", \"open\" or a list of domains"), "{error}");
    }
}
