//! What a call costs. The bundled table holds list prices of well-known models; a configured price wins, and a model that
//! neither knows has no price rather than a guessed one.

use protocol::{Usage, Usd};
use serde::de::{Deserialize as _, Deserializer, Error as _};

use crate::model::Model;
use crate::provider::Provider;

/// Dollars per million tokens. What is finer than a millionth of a dollar is rounded.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of the prompt.
    #[serde(deserialize_with = "dollars")]
    pub input: f64,
    /// Of the answer and of reasoning.
    #[serde(deserialize_with = "dollars")]
    pub output: f64,
    /// Of prompt tokens read from a cache; like `input` when absent.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_read: Option<f64>,
    /// Of prompt tokens written to a cache; like `input` when absent.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_write: Option<f64>,
}

/// A price that was written down. One below nothing would have spend run backwards, and no limit on it would be reached.
fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    if dollars.is_finite() && dollars >= 0.0 {
        Ok(dollars)
    } else {
        Err(D::Error::custom(format!("{dollars} is no price: write dollars for a million tokens, 0 or more")))
    }
}

fn some_dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    dollars(deserializer).map(Some)
}

/// Price of a call, when known.
pub fn cost_usd(model: &Model, usage: &Usage) -> Option<f64> {
    let price = model.price.or_else(|| listed(model.provider, &model.model, usage.prompt()))?;
    let mut cost = Usd::default();
    for (tokens, dollars) in [
        (usage.input, price.input),
        (usage.cache_read, price.cache_read.unwrap_or(price.input)),
        (usage.cache_write, price.cache_write.unwrap_or(price.input)),
        (usage.output, price.output),
        (usage.reasoning, price.output),
    ] {
        // So many millionths of a dollar for a million tokens are as many millionths of that for one.
        let for_one = (dollars * 1e6).round() as i128;
        cost += Usd::from_pico(for_one.saturating_mul(tokens.into()));
    }
    Some(cost.dollars())
}

/// The price that counts: the configured one, or the listed one for a prompt of ordinary length.
pub fn price(model: &Model) -> Option<Price> {
    model.price.or_else(|| listed(model.provider, &model.model, 0))
}

fn listed(provider: Provider, model: &str, prompt: u64) -> Option<Price> {
    let table = match provider {
        Provider::Anthropic => ANTHROPIC,
        Provider::OpenAi | Provider::OpenAiResponses => OPENAI,
        Provider::GeminiChat | Provider::Gemini => GEMINI,
        // What runs at home has no price by the token.
        Provider::Ollama | Provider::Vllm | Provider::LlamaCpp => return Some(entry(0.0, 0.0, 0.0)),
        // The same name is sold by many, at prices that depend on the region and the contract.
        Provider::OpenRouter
        | Provider::Azure
        | Provider::AzureResponses
        | Provider::Bedrock
        | Provider::BedrockResponses
        | Provider::BedrockAnthropic
        | Provider::Vertex
        | Provider::VertexAnthropic
        | Provider::VertexGemini
        | Provider::OpenAiCompatible => return None,
    };
    let model = model.strip_prefix("models/").unwrap_or(model);
    let &(known, mut price) =
        table.iter().find(|(name, _)| model.strip_prefix(name).is_some_and(is_release))?;
    let long = LONG.iter().find(|(name, over, _)| *name == known && prompt > *over);
    if let Some((_, _, dearer)) = long {
        price = *dearer;
    }
    if provider == Provider::Anthropic {
        price.cache_write = Some(price.input * 1.25);
    }
    Some(price)
}

/// Whether the rest of a model's name only says which release of it is meant: nothing, a date or `latest`.
fn is_release(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else { return rest.is_empty() };
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest == "latest" || (digits == 8 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

const fn entry(input: f64, output: f64, cache_read: f64) -> Price {
    Price { input, output, cache_read: Some(cache_read), cache_write: None }
}

/// What writing to the cache costs more than reading the prompt, where that is so.
const fn writing(price: Price, cache_write: f64) -> Price {
    Price { cache_write: Some(cache_write), ..price }
}

const ANTHROPIC: &[(&str, Price)] = &[
    ("claude-fable-5-1", entry(10.0, 50.0, 0.25)),
    ("claude-fable-5", entry(10.0, 50.0, 1.0)),
    ("claude-mythos-5-1", entry(10.0, 50.0, 0.25)),
    ("claude-mythos-5", entry(10.0, 50.0, 1.0)),
    ("claude-opus-5-5", entry(4.0, 20.0, 0.2)),
    ("claude-opus-5", entry(5.0, 25.0, 0.5)),
    ("claude-opus-4-8", entry(5.0, 25.0, 0.5)),
    ("claude-opus-4-7", entry(5.0, 25.0, 0.5)),
    ("claude-opus-4-6", entry(5.0, 25.0, 0.5)),
    ("claude-opus-4-5", entry(5.0, 25.0, 0.5)),
    ("claude-opus-4-1", entry(15.0, 75.0, 1.5)),
    ("claude-opus-4-0", entry(15.0, 75.0, 1.5)),
    ("claude-opus-4", entry(15.0, 75.0, 1.5)),
    ("claude-sonnet-5-5", entry(2.0, 10.0, 0.1)),
    ("claude-sonnet-5", entry(2.0, 10.0, 0.2)),
    ("claude-sonnet-4-6", entry(3.0, 15.0, 0.3)),
    ("claude-sonnet-4-5", entry(3.0, 15.0, 0.3)),
    ("claude-sonnet-4-0", entry(3.0, 15.0, 0.3)),
    ("claude-sonnet-4", entry(3.0, 15.0, 0.3)),
    ("claude-3-7-sonnet", entry(3.0, 15.0, 0.3)),
    ("claude-haiku-5-5", entry(0.1, 0.5, 0.01)),
    ("claude-haiku-4-5", entry(1.0, 5.0, 0.1)),
    ("claude-3-5-haiku", entry(0.8, 4.0, 0.08)),
];

const OPENAI: &[(&str, Price)] = &[
    ("gpt-6-astra", writing(entry(10.0, 50.0, 1.0), 12.5)),
    ("gpt-5.6", writing(entry(2.0, 10.0, 0.2), 2.5)),
    ("gpt-5.5", entry(5.0, 30.0, 0.5)),
    ("gpt-5.4", entry(2.5, 15.0, 0.25)),
    ("gpt-5.4-mini", entry(0.75, 4.5, 0.075)),
    ("gpt-5.2", entry(1.75, 14.0, 0.175)),
    ("gpt-5.2-codex", entry(1.75, 14.0, 0.175)),
    ("gpt-5.1", entry(1.25, 10.0, 0.125)),
    ("gpt-5.1-codex", entry(1.25, 10.0, 0.125)),
    ("gpt-5", entry(1.25, 10.0, 0.125)),
    ("gpt-5-codex", entry(1.25, 10.0, 0.125)),
    ("gpt-5-mini", entry(0.25, 2.0, 0.025)),
    ("gpt-5-nano", entry(0.05, 0.4, 0.005)),
    ("gpt-4.1", entry(2.0, 8.0, 0.5)),
    ("gpt-4.1-mini", entry(0.4, 1.6, 0.1)),
    ("gpt-4.1-nano", entry(0.1, 0.4, 0.025)),
    ("gpt-4o", entry(2.5, 10.0, 1.25)),
    ("gpt-4o-mini", entry(0.15, 0.6, 0.075)),
    ("o3", entry(2.0, 8.0, 0.5)),
    ("o4-mini", entry(1.1, 4.4, 0.275)),
];

const GEMINI: &[(&str, Price)] = &[
    ("gemini-3.8-flash", entry(0.75, 3.75, 0.075)),
    ("gemini-3.5-flash", entry(1.5, 9.0, 0.15)),
    ("gemini-3.1-pro-preview", entry(2.0, 12.0, 0.2)),
    ("gemini-3-flash-preview", entry(0.5, 3.0, 0.05)),
    ("gemini-2.5-pro", entry(1.25, 10.0, 0.125)),
    ("gemini-2.5-flash", entry(0.3, 2.5, 0.03)),
    ("gemini-2.5-flash-lite", entry(0.1, 0.4, 0.01)),
];

/// Models whose prices rise for the whole call when the prompt has more tokens than this.
const LONG: &[(&str, u64, Price)] = &[
    ("claude-haiku-5-5", 100_000, entry(0.5, 2.5, 0.05)),
    ("gpt-6-astra", 272_000, writing(entry(20.0, 75.0, 2.0), 25.0)),
    ("gpt-5.6", 272_000, writing(entry(4.0, 15.0, 0.4), 5.0)),
    ("gpt-5.5", 272_000, entry(10.0, 45.0, 1.0)),
    ("gpt-5.4", 272_000, entry(5.0, 22.5, 0.5)),
    ("gemini-3.1-pro-preview", 200_000, entry(4.0, 18.0, 0.4)),
    ("gemini-2.5-pro", 200_000, entry(2.5, 15.0, 0.25)),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn model(provider: Provider, name: &str, price: Option<Price>) -> Model {
        Model { price, ..crate::model::sample(provider, name) }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let million = 1_000_000;
        let usage = Usage {
            input: million,
            cache_read: million,
            cache_write: million,
            output: million,
            reasoning: million,
            estimated: 0,
        };
        let cost = cost_usd(&model(Provider::Anthropic, "claude-sonnet-4-5-20250929", None), &usage).unwrap();
        assert_eq!(cost, 37.05);
        let own = Price { input: 1.0, output: 2.0, cache_read: None, cache_write: None };
        let cost = cost_usd(&model(Provider::OpenAiCompatible, "anything", Some(own)), &usage).unwrap();
        assert_eq!(cost, 7.0);
    }

    #[test]
    fn the_cost_of_a_call_has_no_rounding_error() {
        let cost = |price, input, output, reasoning| {
            let usage = Usage { input, output, reasoning, ..Usage::default() };
            let price = Price { input: price, output: price, cache_read: None, cache_write: None };
            cost_usd(&model(Provider::OpenAiCompatible, "anything", Some(price)), &usage).unwrap()
        };
        assert_eq!(cost(1.0, 50_000, 10, 0), 0.05001);
        assert_eq!(cost(0.000_001, 3, 0, 0), 0.000_000_000_003);
        assert_eq!(cost(0.123_457, 1_000_003, 1, 2), 0.123_457_740_742);
        assert!(cost(1.0, 0, u64::MAX, u64::MAX) > 1e13, "whatever a server reports");
    }

    #[test]
    fn a_price_below_nothing_is_refused() {
        let read = serde_json::from_str::<Price>;
        let price = Price { input: 1.0, output: 0.0, cache_read: Some(0.5), cache_write: None };
        assert_eq!(read(r#"{"input": 1, "output": 0, "cache_read": 0.5}"#).unwrap(), price);
        for wrong in [
            r#"{"input": -1, "output": 1}"#,
            r#"{"input": 1, "output": -0.5}"#,
            r#"{"input": 1, "output": 1, "cache_read": -1}"#,
            r#"{"input": 1, "output": 1, "cache_write": -1}"#,
        ] {
            assert!(read(wrong).unwrap_err().to_string().contains("0 or more"), "{wrong}");
        }
        let number = serde::de::value::F64Deserializer::<serde::de::value::Error>::new;
        assert!(dollars(number(f64::NAN)).is_err() && dollars(number(f64::INFINITY)).is_err());
    }

    #[test]
    fn a_long_prompt_can_cost_more() {
        let cost = |input| {
            let usage = Usage { input, ..Usage::default() };
            cost_usd(&model(Provider::GeminiChat, "gemini-2.5-pro", None), &usage).unwrap()
        };
        assert!((cost(200_000) - 0.25).abs() < 1e-9);
        assert!((cost(400_000) - 1.0).abs() < 1e-9);
        let usage = Usage { input: 272_001, output: 1_000_000, ..Usage::default() };
        assert_eq!(cost_usd(&model(Provider::OpenAi, "gpt-5.4", None), &usage), Some(23.860_005));
        let known = |name: &str| [ANTHROPIC, OPENAI, GEMINI].concat().iter().any(|(other, _)| *other == name);
        assert!(LONG.iter().all(|(name, ..)| known(name)));
    }

    #[test]
    fn what_runs_at_home_costs_nothing_by_the_token() {
        let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        assert_eq!(cost_usd(&model(Provider::Ollama, "qwen3:8b", None), &usage), Some(0.0));
    }

    #[test]
    fn what_is_not_in_the_table_has_no_price() {
        let usage = Usage { input: 1, ..Usage::default() };
        let price = |provider, name| cost_usd(&model(provider, name, None), &usage);
        assert_eq!(price(Provider::Anthropic, "claude-opus-4-99"), None);
        assert_eq!(price(Provider::OpenAi, "gpt-5-pro"), None);
        assert_eq!(price(Provider::OpenAiCompatible, "gpt-5"), None);
        assert!(price(Provider::OpenAi, "gpt-4o-2024-08-06").is_some());
        assert!(price(Provider::OpenAi, "gpt-5-mini").unwrap() < price(Provider::OpenAi, "gpt-5").unwrap());
    }
}
