//! What a model can do, known by its name: the size of its context, the longest answer, how it acts and how it edits.
//! What the configuration says wins. A model that nobody knows gets cautious numbers: too small costs a compaction, too
//! large costs the turn.

use protocol::{EditFormat, ToolMode};

use crate::model::Model;

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Tokens that it can read and write in one call.
    pub context: u64,
    /// Most tokens of one answer, with what it thinks.
    pub max_output: u32,
    /// How it is made to act.
    pub tool_mode: ToolMode,
    /// How it changes files.
    pub edit_format: EditFormat,
    /// Whether it sees images; one that does not is told of them in words.
    pub images: bool,
    /// How sure the size of the context is.
    pub source: Source,
}

/// Where the size of a context comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Someone said so.
    Configured,
    /// The model's family is known.
    Known,
    /// Nobody said so: it is a cautious guess.
    Assumed,
}

/// What a server of one's own is taken to have been started with.
const LOCAL_CONTEXT: u64 = 16_384;

/// What is known of a family of models.
struct Family {
    /// What the name begins with.
    name: &'static str,
    context: u64,
    max_output: u32,
    edit_format: EditFormat,
    /// The smallest size, in billions, that calls tools well in the provider's own format; 0 for all.
    native_from: f64,
    /// Whether anybody can serve it, with a context of their choice.
    open: bool,
}

const fn family(name: &'static str, context: u64, max_output: u32) -> Family {
    Family { name, context, max_output, edit_format: EditFormat::Replace, native_from: 0.0, open: false }
}

const fn patching(name: &'static str, context: u64, max_output: u32) -> Family {
    Family { edit_format: EditFormat::Patch, ..family(name, context, max_output) }
}

/// A family whose weights are open, in many sizes.
const fn open(name: &'static str, context: u64, max_output: u32, native_from: f64) -> Family {
    Family { native_from, open: true, ..family(name, context, max_output) }
}

/// The first that fits counts, so the longer name stands before the shorter.
const FAMILIES: &[Family] = &[
    family("claude-3-7", 200_000, 64_000),
    family("claude-3", 200_000, 8_192),
    family("claude-opus-4-0", 200_000, 32_000),
    family("claude-opus-4-1", 200_000, 32_000),
    family("claude-opus-4-2", 200_000, 32_000),
    family("claude-opus-4-6", 1_000_000, 128_000),
    family("claude-opus-4-7", 1_000_000, 128_000),
    family("claude-opus-4-8", 1_000_000, 128_000),
    family("claude-opus-4", 200_000, 64_000),
    family("claude-sonnet-4-6", 1_000_000, 128_000),
    family("claude-sonnet-4", 200_000, 64_000),
    family("claude-haiku-4", 200_000, 64_000),
    family("claude-opus", 1_000_000, 128_000),
    family("claude-sonnet", 1_000_000, 128_000),
    family("claude-haiku", 1_000_000, 128_000),
    family("claude-fable", 1_000_000, 128_000),
    family("claude-mythos", 1_000_000, 128_000),
    family("claude", 200_000, 64_000),
    open("gpt-oss", 131_072, 32_768, 0.0),
    patching("gpt-5.4-mini", 400_000, 128_000),
    patching("gpt-5.4-nano", 400_000, 128_000),
    patching("gpt-5.4", 1_050_000, 128_000),
    patching("gpt-5.5", 1_050_000, 128_000),
    patching("gpt-5.6", 1_050_000, 128_000),
    patching("gpt-5", 400_000, 128_000),
    patching("gpt-6", 1_050_000, 128_000),
    family("gpt-4.1", 1_047_576, 32_768),
    family("gpt-4o", 128_000, 16_384),
    family("gpt-4", 128_000, 4_096),
    family("codex", 400_000, 128_000),
    family("o1", 200_000, 100_000),
    family("o3", 200_000, 100_000),
    family("o4", 200_000, 100_000),
    family("gemini-1", 1_000_000, 8_192),
    family("gemini-2.0", 1_048_576, 8_192),
    family("gemini", 1_048_576, 65_536),
    family("deepseek-reasoner", 128_000, 64_000),
    open("deepseek", 128_000, 8_192, 30.0),
    open("qwen3-coder", 262_144, 65_536, 8.0),
    open("qwen3", 131_072, 32_768, 8.0),
    Family { edit_format: EditFormat::Whole, ..open("qwen2.5", 32_768, 8_192, 30.0) },
    open("qwen", 131_072, 32_768, 8.0),
    open("kimi", 262_144, 32_768, 0.0),
    open("glm", 128_000, 32_768, 9.0),
    open("minimax", 196_608, 65_536, 0.0),
    open("grok", 256_000, 32_768, 0.0),
    open("devstral", 131_072, 32_768, 0.0),
    open("codestral", 131_072, 32_768, 0.0),
    open("ministral", 131_072, 32_768, 8.0),
    open("mistral", 131_072, 32_768, 12.0),
    open("mixtral", 32_768, 8_192, 0.0),
    open("llama", 131_072, 8_192, 30.0),
    open("granite", 131_072, 8_192, 8.0),
    open("nemotron", 131_072, 16_384, 8.0),
    open("gemma", 32_768, 8_192, 20.0),
    open("phi", 16_384, 4_096, 14.0),
    open("smollm", 8_192, 2_048, 30.0),
];

/// Families that are known to read text only. Of all others the first refusal teaches it.
const BLIND: &[&str] = &[
    "claude-2",
    "codellama",
    "codestral",
    "deepseek",
    "glm-4-",
    "glm-4.5",
    "glm-4.6",
    "glm-4.7",
    "gpt-3.5",
    "gpt-oss",
    "granite",
    "kimi-k2-",
    "llama-2",
    "llama-3",
    "llama2",
    "llama3",
    "minimax-m",
    "mixtral",
    "nemotron",
    "o1-mini",
    "o3-mini",
    "phi",
    "qwen2-",
    "qwen2.5",
    "qwen3-",
    "qwen3:",
    "smollm",
    "starcoder",
];

/// Words in a name that say that a model sees, whatever its family.
const SEEING: &[&str] = &["vl", "vision", "omni", "multimodal", "4.5v", "4.6v"];

/// Whether a model of this name sees images.
fn sees(name: &str) -> bool {
    let words = || name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    words().any(|word| SEEING.iter().any(|seeing| word.ends_with(seeing)))
        || !BLIND.iter().any(|family| name.starts_with(family))
}

/// Up to this many billions a model writes whole files in fenced blocks better than it does anything else.
const FENCED_UP_TO: f64 = 4.0;
/// Up to this many billions it keeps whole files right more often than parts of them.
const WHOLE_UP_TO: f64 = 14.5;

impl Model {
    /// What it can do.
    pub fn profile(&self) -> Profile {
        let said = &self.overrides;
        let name = plain(&self.model);
        let family = FAMILIES.iter().find(|family| name.starts_with(family.name));
        let size = billions(&name);
        let (mut context, mut max_output, mut source) = match family {
            Some(family) => (family.context, family.max_output, Source::Known),
            // Whoever says how much it is to think knows that it can, and so writes more than an answer.
            None if said.effort.is_some() => (32_768, 8_192 + crate::thinking::MOST, Source::Assumed),
            None => (32_768, 8_192, Source::Assumed),
        };
        let served_at_will = family.is_some_and(|family| family.open) && self.is_local();
        if served_at_will || self.provider.facts().local {
            (context, source) = (context.min(LOCAL_CONTEXT), Source::Assumed);
        }
        if let Some(said) = said.context {
            (context, source) = (said, Source::Configured);
        }
        // An answer that may fill the whole window leaves no room for a question.
        max_output = max_output.min(u32::try_from(context / 4).unwrap_or(u32::MAX)).max(256);
        let tool_mode = match size {
            Some(size) if size <= FENCED_UP_TO => ToolMode::Fenced,
            Some(size) if family.is_some_and(|family| size < family.native_from) => ToolMode::JsonStep,
            _ => ToolMode::Native,
        };
        let tool_mode = said.tool_mode.unwrap_or(tool_mode);
        let edit_format = match size {
            // Who writes fenced blocks writes whole files, however large it is.
            _ if tool_mode == ToolMode::Fenced => EditFormat::Whole,
            Some(size) if size <= WHOLE_UP_TO => EditFormat::Whole,
            _ => family.map_or(EditFormat::Replace, |family| family.edit_format),
        };
        Profile {
            context,
            max_output: said.max_output.unwrap_or(max_output),
            tool_mode,
            edit_format: said.edit_format.unwrap_or(edit_format),
            images: said.images.unwrap_or_else(|| sees(&name)),
            source,
        }
    }
}

/// The name without who publishes or sells it: `us.anthropic.claude-…`, `qwen/qwen3-…` and `claude-…` are the same.
pub(crate) fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let publishers = ["us.", "eu.", "apac.", "global.", "anthropic.", "openai.", "google.", "meta.", "qwen."];
    let mut name = name;
    while let Some(rest) = publishers.iter().find_map(|publisher| name.strip_prefix(publisher)) {
        name = rest;
    }
    name.to_owned()
}

/// The size in billions that a name tells, as `1.5b`, `30b-a3b` or `135m` do.
fn billions(name: &str) -> Option<f64> {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    words.into_iter().find_map(|word| {
        let word = word.trim_matches('.');
        let word = word.strip_prefix('e').unwrap_or(word);
        let (number, unit) = match (word.strip_suffix('b'), word.strip_suffix('m')) {
            (Some(number), _) => (number, 1.0),
            (None, Some(number)) => (number, 0.001),
            (None, None) => return None,
        };
        let begins = number.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
        number.parse::<f64>().ok().filter(|_| begins).map(|number| number * unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Overrides, sample};
    use crate::provider::Provider;

    fn profile(provider: Provider, name: &str) -> Profile {
        sample(provider, name).profile()
    }

    #[test]
    fn known_families_have_their_sizes_and_formats() {
        use EditFormat::{Patch, Replace, Whole};
        for (provider, name, context, output, edit) in [
            (Provider::Anthropic, "claude-sonnet-4-5-20250929", 200_000, 50_000, Replace),
            (Provider::Anthropic, "claude-opus-5-5", 1_000_000, 128_000, Replace),
            (Provider::BedrockAnthropic, "us.anthropic.claude-opus-4-1", 200_000, 32_000, Replace),
            (Provider::Anthropic, "claude-opus-4-8", 1_000_000, 128_000, Replace),
            (Provider::Anthropic, "claude-sonnet-4-6", 1_000_000, 128_000, Replace),
            (Provider::OpenAi, "gpt-5.4-mini", 400_000, 100_000, Patch),
            (Provider::OpenAi, "gpt-5.4", 1_050_000, 128_000, Patch),
            (Provider::OpenAi, "gpt-5.1-codex", 400_000, 100_000, Patch),
            (Provider::OpenRouter, "openai/gpt-5", 400_000, 100_000, Patch),
            (Provider::OpenRouter, "openai/gpt-oss-120b", 131_072, 32_768, Replace),
            (Provider::OpenAi, "gpt-4o-mini", 128_000, 16_384, Replace),
            (Provider::Gemini, "models/gemini-2.5-pro", 1_048_576, 65_536, Replace),
            (Provider::OpenRouter, "qwen/qwen3-coder-480b-a35b", 262_144, 65_536, Replace),
            (Provider::OpenRouter, "Qwen/Qwen2.5-Coder-32B-Instruct", 32_768, 8_192, Whole),
        ] {
            let profile = profile(provider, name);
            assert_eq!((profile.context, profile.max_output), (context, output), "{name}");
            assert_eq!((profile.edit_format, profile.tool_mode), (edit, ToolMode::Native), "{name}");
            assert_eq!(profile.source, Source::Known, "{name}");
        }
    }

    #[test]
    fn a_small_model_gets_the_loop_that_suits_it() {
        for (name, mode) in [
            ("qwen2.5-coder:1.5b", ToolMode::Fenced),
            ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", ToolMode::Fenced),
            ("SmolLM2-135M-Instruct", ToolMode::Fenced),
            ("gemma-3n-e2b-it", ToolMode::Fenced),
            ("qwen2.5-coder:7b", ToolMode::JsonStep),
            ("llama3.1:8b", ToolMode::JsonStep),
            ("qwen3:8b", ToolMode::Native),
            ("qwen3:30b-a3b", ToolMode::Native),
            ("something-nobody-knows", ToolMode::Native),
        ] {
            let profile = profile(Provider::Ollama, name);
            assert_eq!(profile.tool_mode, mode, "{name}");
            assert!(profile.context <= LOCAL_CONTEXT && profile.source == Source::Assumed, "{name}");
            assert!(u64::from(profile.max_output) * 4 <= profile.context, "{name}");
        }
        assert_eq!(profile(Provider::Ollama, "qwen2.5-coder:7b").edit_format, EditFormat::Whole);
        assert_eq!(profile(Provider::Ollama, "gpt-oss:20b").edit_format, EditFormat::Replace);
        let mut large = sample(Provider::OpenAi, "gpt-5.4");
        large.overrides.tool_mode = Some(ToolMode::Fenced);
        assert_eq!(large.profile().edit_format, EditFormat::Whole, "blocks hold whole files");
    }

    #[test]
    fn models_that_read_text_only_are_known() {
        for name in [
            "claude-sonnet-4-5",
            "gpt-5",
            "gemini-2.5-pro",
            "qwen2.5-vl:7b",
            "qwen3-vl-30b-a3b",
            "llama3.2-vision:11b",
            "glm-4.5v",
            "gemma-3-4b-it",
            "Qwen/Qwen2.5-Omni-7B",
            "nobody-knows",
        ] {
            assert!(profile(Provider::OpenAiCompatible, name).images, "{name}");
        }
        for name in [
            "qwen2.5-coder:1.5b",
            "qwen3:8b",
            "qwen3-coder-30b-a3b",
            "deepseek-chat",
            "llama3.1:8b",
            "openai/gpt-oss-20b",
            "o3-mini",
            "glm-4.6",
            "smollm2:135m",
        ] {
            assert!(!profile(Provider::OpenAiCompatible, name).images, "{name}");
        }
    }

    #[test]
    fn what_is_configured_wins() {
        let mut model = sample(Provider::LlamaCpp, "qwen2.5-coder-1.5b");
        model.overrides = Overrides {
            context: Some(32_000),
            max_output: Some(1_000),
            tool_mode: Some(ToolMode::JsonStep),
            edit_format: Some(EditFormat::Replace),
            images: Some(true),
            ..Overrides::default()
        };
        let expected = Profile {
            context: 32_000,
            max_output: 1_000,
            tool_mode: ToolMode::JsonStep,
            edit_format: EditFormat::Replace,
            images: true,
            source: Source::Configured,
        };
        assert_eq!(model.profile(), expected);
    }

    #[test]
    fn sizes_are_read_from_names_and_nothing_else_is_taken_for_one() {
        assert_eq!(billions("qwen3-30b-a3b"), Some(30.0));
        assert_eq!(billions("smollm2:135m"), Some(0.135));
        for name in ["gpt-4o", "llama-4bit", "mixtral-8x7b", "q4_k_m", "model-b", "gpt-5", "nan-b", "m"] {
            assert_eq!(billions(name), None, "{name}");
        }
    }
}
