//! The schema of a tool's arguments as every provider takes it. Servers may list any JSON schema; providers refuse a whole
//! request for one tool whose schema has a choice at its top, a reference that goes nowhere, or a keyword with a value that it
//! cannot have. What would be refused is left out, which makes the schema wider, never narrower: the server checks arguments
//! itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Most bytes of a schema, and how deep it may be.
const SIZE: usize = 16 * 1024;
const DEPTH: usize = 24;
/// Most schemas inside of one, with what its references stand for.
const PARTS: usize = 4_000;
/// How many references are followed inside of each other; fewer where that is too much.
const REFERENCES: [usize; 4] = [8, 3, 1, 0];
/// How many arguments that have no place in a schema are named.
const SHOWN: usize = 20;
/// Longest name of an argument.
const NAME: usize = 64;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// What authors write where they mean one of the types.
const MEANT: [(&str, &str); 8] = [
    ("bool", "boolean"),
    ("dict", "object"),
    ("double", "number"),
    ("float", "number"),
    ("int", "integer"),
    ("list", "array"),
    ("map", "object"),
    ("str", "string"),
];

/// Keywords whose value is a text, a number, or a number that counts something.
const TEXTS: [&str; 3] = ["description", "format", "title"];
const NUMBERS: [&str; 5] = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];
const COUNTS: [&str; 6] =
    ["maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"];
/// Keywords with several schemas, of which one, some or all hold.
const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// A schema that providers take, and what a model should know of what was left out.
pub(crate) fn plain(given: &Map<String, Value>) -> (Value, Option<String>) {
    let whole = Value::Object(given.clone());
    for references in REFERENCES {
        let mut reader =
            Reader { whole: &whole, parts: PARTS, path: Vec::new(), references, unnamed: BTreeSet::new() };
        let fits = |schema: &Value| schema.to_string().len() <= SIZE && depth(schema, DEPTH).is_some();
        if let Some(schema) = reader.arguments().map(Value::Object).filter(fits) {
            return (schema, reader.left_out());
        }
    }
    let bare = json!({"type": "object", "properties": {}, "additionalProperties": true});
    (bare, Some("The schema of its arguments is too large and is left out.".to_owned()))
}

/// Reads one schema with what it refers to. Each of its steps gives None where it is too much.
struct Reader<'a> {
    whole: &'a Value,
    /// How many parts may still come.
    parts: usize,
    /// The references that are being followed, and how many that may be.
    path: Vec<&'a str>,
    references: usize,
    /// Arguments that no provider lets a tool have under their names.
    unnamed: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    /// What a tool takes: an object, without any choice between several.
    fn arguments(&mut self) -> Option<Map<String, Value>> {
        let mut object = self.gathered(self.whole, DEPTH)?;
        // That one of several forms is wanted cannot be said. The arguments of all of them can, and what all of them demand.
        while let Some(Value::Array(forms)) = object.remove("anyOf") {
            let demands = |form: &Value| -> Vec<Value> {
                form.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
            };
            let mut demanded = forms.first().map(demands).unwrap_or_default();
            forms.iter().for_each(|form| demanded.retain(|name| demands(form).contains(name)));
            for form in forms.into_iter().filter_map(|form| form.as_object().cloned()) {
                let kept = |(key, _): &(String, Value)| ["anyOf", "properties"].contains(&key.as_str());
                add(&mut object, form.into_iter().filter(kept).collect());
            }
            add(&mut object, Map::from_iter([("required".to_owned(), Value::Array(demanded))]));
        }
        object.retain(|key, _| {
            !["const", "default", "enum", "format", "pattern", "title"].contains(&key.as_str())
        });
        object.insert("type".to_owned(), json!("object"));
        object.entry("properties").or_insert_with(|| json!({}));
        Some(finished(object))
    }

    /// A schema at any other place.
    fn schema(&mut self, given: &'a Value, depth: usize) -> Option<Value> {
        self.gathered(given, depth).map(|schema| Value::Object(finished(schema)))
    }

    /// The keywords of a schema, of all that it consists of, and of what it refers to.
    fn gathered(&mut self, given: &'a Value, depth: usize) -> Option<Map<String, Value>> {
        self.parts = self.parts.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let mut plain = Map::new();
        let given = match given {
            Value::Object(given) => given,
            // "a": "string" is no schema, and it is clear what is meant.
            Value::String(_) => {
                plain.extend(types(given).map(|name| ("type".to_owned(), name)));
                return Some(plain);
            }
            _ => return Some(plain),
        };
        for (key, value) in given {
            let kept = match key.as_str() {
                "type" => types(value),
                "properties" => self.properties(value, depth)?,
                "items" | "additionalProperties" if value.is_object() => Some(self.schema(value, depth)?),
                "additionalProperties" | "uniqueItems" => Some(value.clone()).filter(Value::is_boolean),
                "required" => value
                    .as_array()
                    .map(|names| names.iter().filter(|name| name.is_string()).cloned().collect()),
                "enum" => value.as_array().filter(|values| !values.is_empty()).map(|_| value.clone()),
                "const" | "default" => Some(value.clone()),
                "pattern" => value.as_str().filter(|text| !is_odd(text)).map(Value::from),
                key if TEXTS.contains(&key) => Some(value.clone()).filter(Value::is_string),
                key if NUMBERS.contains(&key) => Some(value.clone()).filter(Value::is_number),
                key if COUNTS.contains(&key) => Some(value.clone()).filter(Value::is_u64),
                _ => None,
            };
            plain.extend(kept.map(|kept| (key.clone(), kept)));
        }
        for choices in CHOICES.iter().filter_map(|key| given.get(*key)?.as_array()) {
            let choice = self.choice(choices, depth)?;
            add(&mut plain, choice);
        }
        for part in given.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.gathered(part, depth)?;
            add(&mut plain, part);
        }
        let target = given.get("$ref").and_then(Value::as_str).and_then(|place| place.strip_prefix('#'));
        if let Some((place, target)) = target.and_then(|place| Some((place, self.whole.pointer(place)?))) {
            // One that contains itself has no end; of it, and of too many, only the type is told.
            if self.path.len() < self.references && !place.is_empty() && !self.path.contains(&place) {
                self.path.push(place);
                let target = self.gathered(target, depth)?;
                self.path.pop();
                add(&mut plain, target);
            } else if let Some(name) = target.get("type").and_then(types) {
                plain.entry("type").or_insert(name);
            }
        }
        if given.get("nullable") == Some(&Value::Bool(true))
            && let Some(Value::String(name)) = plain.get("type").cloned()
        {
            plain.insert("type".to_owned(), json!([name, "null"]));
        }
        Some(plain)
    }

    /// One of several schemas.
    fn choice(&mut self, choices: &'a [Value], depth: usize) -> Option<Map<String, Value>> {
        let mut plain = Vec::new();
        for choice in choices {
            let schema = self.schema(choice, depth)?;
            let is_empty = schema.as_object().is_some_and(Map::is_empty);
            match choice.get("not") {
                // Some write what may be missing as one that nothing fulfils.
                Some(_) if is_empty => {}
                // All is allowed.
                None if is_empty => return Some(Map::new()),
                Some(_) | None => plain.push(schema),
            }
        }
        match plain.as_slice() {
            [] => Some(Map::new()),
            [Value::Object(only)] => Some(only.clone()),
            _ => Some(Map::from_iter([("anyOf".to_owned(), Value::Array(plain))])),
        }
    }

    fn properties(&mut self, given: &'a Value, depth: usize) -> Option<Option<Value>> {
        let Some(given) = given.as_object() else { return Some(None) };
        let mut properties = Map::new();
        for (name, property) in given {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || name.len() > NAME || !name.chars().all(allowed) {
                self.unnamed.insert(name.chars().filter(|c| !c.is_control()).take(NAME).collect());
                continue;
            }
            properties.insert(name.clone(), self.schema(property, depth)?);
        }
        Some(Some(Value::Object(properties)))
    }

    fn left_out(&self) -> Option<String> {
        let names: Vec<&str> = self.unnamed.iter().map(String::as_str).take(SHOWN).collect();
        (!names.is_empty())
            .then(|| format!("It also takes what cannot be described here: {}.", names.join(", ")))
    }
}

/// A schema in which one keyword fits the others.
fn finished(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(mut names)) = schema.remove("required") {
        let known = schema.get("properties").and_then(Value::as_object);
        let mut seen = BTreeSet::new();
        names.retain(|name| {
            let name = name.as_str().unwrap_or_default();
            known.is_some_and(|known| known.contains_key(name)) && seen.insert(name.to_owned())
        });
        if !names.is_empty() {
            schema.insert("required".to_owned(), Value::Array(names));
        }
    }
    let is_list = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        Some(name) => name == "array",
        None => false,
    };
    if is_list {
        schema.entry("items").or_insert_with(|| json!({}));
    }
    schema
}

/// Whether an expression has what not every engine has.
fn is_odd(pattern: &str) -> bool {
    let after = pattern.split('\\').skip(1).filter_map(|rest| rest.chars().next());
    pattern.contains("(?") || after.into_iter().any(|c| c.is_ascii_digit() || matches!(c, 'k' | 'p' | 'P'))
}

/// Adds keywords that are not there; of arguments and demands those that are not.
fn add(plain: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, value) in other {
        match (plain.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                for (name, property) in more {
                    known.entry(name).or_insert(property);
                }
            }
            (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                let new: Vec<Value> = more.into_iter().filter(|name| !known.contains(name)).collect();
                known.extend(new);
            }
            (Some(_), _) => {}
            (None, value) => drop(plain.insert(key, value)),
        }
    }
}

/// The types that there are of those that are named.
fn types(value: &Value) -> Option<Value> {
    match value {
        Value::String(name) => type_named(name).map(Value::from),
        Value::Array(names) => {
            let mut known: Vec<&str> = names.iter().filter_map(|name| type_named(name.as_str()?)).collect();
            let mut seen = BTreeSet::new();
            known.retain(|name| seen.insert(*name));
            match known.as_slice() {
                [] => None,
                [one] => Some(Value::from(*one)),
                several => Some(json!(several)),
            }
        }
        _ => None,
    }
}

fn type_named(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    let meant = MEANT.iter().find(|(word, _)| *word == name).map_or(name.as_str(), |(_, meant)| meant);
    TYPES.into_iter().find(|known| *known == meant)
}

/// How deep a value is; None where it is deeper than the limit.
fn depth(value: &Value, limit: usize) -> Option<usize> {
    let left = limit.checked_sub(1)?;
    let inner: Option<Vec<usize>> = match value {
        Value::Object(object) => object.values().map(|value| depth(value, left)).collect(),
        Value::Array(array) => array.iter().map(|value| depth(value, left)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(Vec::new()),
    };
    inner.map(|inner| 1 + inner.into_iter().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(given: Value) -> Value {
        plain(given.as_object().unwrap()).0
    }

    #[test]
    fn what_every_provider_takes_stays() {
        let whole = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where.", "minLength": 1, "pattern": "^/\\w+$"},
                "lines": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}, "maxItems": 2},
                "mode": {"anyOf": [{"const": "fast"}, {"type": "object", "properties": {}, "additionalProperties": false}]},
                "level": {"enum": ["low", "high"], "default": "low"},
            },
            "required": ["path", "mode"],
            "additionalProperties": false,
        });
        assert_eq!(schema(whole.clone()), whole);
        assert_eq!(
            schema(json!({"$schema": "http://x", "title": "T"})),
            json!({"type": "object", "properties": {}})
        );
    }

    #[test]
    fn a_choice_at_the_top_becomes_the_arguments_of_all_its_forms() {
        let by = |name: &str| {
            json!({"type": "object", "properties": {name: {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["limit", name]})
        };
        for key in ["anyOf", "oneOf"] {
            assert_eq!(
                schema(json!({key: [by("id"), {"$ref": "#/$defs/by"}], "$defs": {"by": by("name")}})),
                json!({"type": "object", "properties": {"id": {"type": "string"}, "limit": {"type": "integer"},
                    "name": {"type": "string"}}, "required": ["limit"]}),
            );
        }
        assert_eq!(
            schema(
                json!({"allOf": [by("id"), by("name"), {"required": ["more"]}], "properties": {"more": true}})
            ),
            json!({"type": "object", "properties": {"more": {}, "id": {"type": "string"}, "limit": {"type": "integer"},
                "name": {"type": "string"}}, "required": ["limit", "id", "name", "more"]}),
        );
        let odd = json!({"type": "string", "not": {"type": "null"}, "enum": [{}], "if": {}, "then": false, "const": 1});
        assert_eq!(schema(odd), json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn what_is_no_schema_is_left_out() {
        assert_eq!(
            schema(json!({
                "properties": {
                    "a": "string", "b": "whatever", "c": {"type": "int"}, "d": {"type": "any", "description": 5},
                    "e": {"type": "array"}, "f": {"type": "array", "items": [{"type": "string"}]},
                    "g": {"type": "string", "required": true, "minLength": -1, "maxLength": "9", "pattern": "(?=x)"},
                    "h": {"type": "number", "minimum": 0, "exclusiveMinimum": true}, "i": {"enum": []}, "j": null,
                    "k": {"type": "string", "nullable": true}, "l": {"anyOf": [{"not": {}}, {"type": "string"}]},
                    "m": {"anyOf": [true, {"type": "string"}]}, "n": {"anyOf": "string"},
                },
                "required": ["a", "z", 5, "a", null],
                "additionalProperties": "no",
            })),
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string"}, "b": {}, "c": {"type": "integer"}, "d": {},
                    "e": {"type": "array", "items": {}}, "f": {"type": "array", "items": {}},
                    "g": {"type": "string"}, "h": {"type": "number", "minimum": 0}, "i": {}, "j": {},
                    "k": {"type": ["string", "null"]}, "l": {"type": "string"}, "m": {}, "n": {},
                },
                "required": ["a"],
            }),
        );
        for (properties, required) in
            [(json!(["a"]), json!(["a"])), (json!("a"), json!("a")), (json!(null), json!({"a": true}))]
        {
            let given = json!({"type": ["object", "null"], "properties": properties, "required": required});
            assert_eq!(schema(given), json!({"type": "object", "properties": {}}));
        }
    }

    #[test]
    fn references_are_followed_as_far_as_they_lead_somewhere() {
        let given = json!({
            "properties": {
                "user": {"$ref": "#/definitions/user", "description": "Who."},
                "gone": {"$ref": "#/definitions/gone"}, "far": {"$ref": "https://example.com/a.json"},
                "self": {"$ref": "#"}, "loop": {"$ref": "#/definitions/loop"},
            },
            "definitions": {
                "user": {"type": "object", "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/definitions/user"}},
                    "required": ["name"]},
                "loop": {"$ref": "#/definitions/loop"},
            },
        });
        let user = json!({"type": "object", "description": "Who.", "required": ["name"],
            "properties": {"name": {"type": "string"}, "boss": {"type": "object"}}});
        assert_eq!(
            schema(given),
            json!({"type": "object", "properties": {"user": user, "gone": {}, "far": {}, "self": {}, "loop": {}}})
        );
        // Each level has two of the next: written out, that is a million.
        let mut defs = Map::new();
        for n in 0..20 {
            let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
            defs.insert(n.to_string(), json!({"type": "object", "properties": {"a": next, "b": next}}));
        }
        let wide = schema(json!({"properties": {"top": {"$ref": "#/$defs/0"}}, "$defs": defs}));
        assert_eq!(wide["properties"]["top"]["type"], "object");
        assert!(wide.to_string().len() <= SIZE);
    }

    #[test]
    fn arguments_with_names_that_are_refused_are_told() {
        let given = json!({"properties": {"$filter": {"type": "string"}, "top": {"type": "integer"}}, "required": ["$filter"]});
        let (schema, left_out) = plain(given.as_object().unwrap());
        assert_eq!(schema, json!({"type": "object", "properties": {"top": {"type": "integer"}}}));
        assert!(left_out.unwrap().contains("$filter"));
    }

    #[test]
    fn what_is_too_much_is_left_out_and_said() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"items": deep});
        }
        for given in [
            json!({"properties": {"a": deep}}),
            json!({"properties": {"a": {"description": "y".repeat(20_000)}}}),
        ] {
            let (schema, left_out) = plain(given.as_object().unwrap());
            assert_eq!(schema["additionalProperties"], true);
            assert!(left_out.unwrap().contains("is left out"));
        }
    }
}
