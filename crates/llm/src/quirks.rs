//! What servers that speak a format do not understand of it. The table says what is known before the first call; the
//! rules say what a refusal teaches. A rule only leaves something out or writes it differently, never changes what the
//! model is told, and is told to whoever made the call.

use crate::complaint::Complaint;
use crate::model::Model;
use crate::profile::plain;
use crate::provider::Provider;

/// How an answer is held to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Structured {
    /// The server takes a schema.
    Schema,
    /// The server takes a schema and may pass over it in silence, so it stands in the instructions too.
    Told,
    /// The server only promises some JSON object; the schema stands in the instructions.
    Object,
    /// The answer is the arguments of a tool that the model has to call.
    Tool,
    /// The server promises nothing; the schema stands in the instructions.
    Asked,
}

/// What ids of calls may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Up to 64 letters, digits, `_` and `-`.
    Words,
    /// Nine letters and digits.
    Nine,
}

/// Where instructions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// In a place of their own.
    Apart,
    /// In a message of their own, in the format that has another place for them.
    Message,
    /// At the head of the first message.
    FirstMessage,
}

/// What a server wants and does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// Whether usage may be asked for in `stream_options`.
    pub(crate) stream_options: bool,
    /// Whether the limit of the answer is called `max_completion_tokens` rather than `max_tokens`.
    pub(crate) completion_limit: bool,
    /// Whether reasoning may be asked for in its encrypted form, which models that do not reason refuse.
    pub(crate) encrypted_reasoning: bool,
    /// Whether the server can be told to keep nothing.
    pub(crate) store: bool,
    /// Whether the limit of an answer may be said, in the format where it is not named in two ways.
    pub(crate) answer_limit: bool,
    /// Whether it may be said that the server need not hold a call to its schema.
    pub(crate) strict_tools: bool,
    /// Whether schemas may tell that an object has no other properties.
    pub(crate) closed_schemas: bool,
    /// Whether Gemini's signatures may go back, on the parts that they came with.
    pub(crate) signatures: bool,
    /// Whether the server can be told that a tool must be called.
    pub(crate) tool_choice: bool,
    /// Whether the key of the cache may be named.
    pub(crate) cache_key: bool,
    /// Whether the places to cache may be marked.
    pub(crate) cache_marks: bool,
    /// Whether the amount of thinking may be said.
    pub(crate) effort: bool,
    /// Whether the temperature may be said.
    pub(crate) temperature: bool,
    /// Whether the model sees images; one that does not is told of them in words.
    pub(crate) images: bool,
    /// How an answer is held to a schema.
    pub(crate) structured: Structured,
    /// Where instructions stand.
    pub(crate) system: System,
    /// Whether messages of one role may follow each other.
    pub(crate) repeated_roles: bool,
    /// Whether a person's message may follow the results of calls.
    pub(crate) user_after_tools: bool,
    /// Whether one message may have several calls.
    pub(crate) parallel_calls: bool,
    /// Whether reasoning without a signature goes back, as `reasoning_content`.
    pub(crate) reasoning_back: bool,
    /// What ids of calls may look like.
    pub(crate) ids: Ids,
    /// Whether calls have ids in Gemini's format. Where they have none, results belong to them by their order.
    pub(crate) call_ids: bool,
}

impl Quirks {
    /// What is known before the first call.
    pub(crate) fn of(model: &Model) -> Self {
        let elsewhere = model.base_url.as_deref().is_some_and(|url| !url.contains("//api.openai.com"));
        let name = plain(&model.model);
        let usual = Self {
            stream_options: true,
            completion_limit: false,
            encrypted_reasoning: true,
            store: true,
            answer_limit: true,
            strict_tools: true,
            closed_schemas: true,
            signatures: true,
            tool_choice: true,
            cache_key: false,
            cache_marks: false,
            effort: true,
            temperature: true,
            images: model.profile().images,
            structured: Structured::Schema,
            system: System::Apart,
            repeated_roles: true,
            user_after_tools: !MISTRALS.iter().any(|family| name.contains(family)),
            parallel_calls: true,
            reasoning_back: false,
            ids: Ids::Words,
            call_ids: true,
        };
        match model.provider {
            Provider::OpenAi => Self { completion_limit: !elsewhere, cache_key: !elsewhere, ..usual },
            Provider::OpenAiResponses => {
                // llama.cpp's server reads the schema in this format and does not hold the model to it.
                let structured = if elsewhere { Structured::Told } else { Structured::Schema };
                Self { cache_key: !elsewhere, structured, ..usual }
            }
            Provider::Azure => Self { completion_limit: true, cache_key: true, ..usual },
            Provider::AzureResponses => Self { cache_key: true, ..usual },
            Provider::Anthropic | Provider::BedrockAnthropic | Provider::VertexAnthropic => {
                // Servers that only speak the format pass over a schema in silence, so they get a tool.
                let schema = model.base_url.is_none() && !OLDER.iter().any(|old| name.starts_with(old));
                let structured = if schema { Structured::Schema } else { Structured::Tool };
                Self { cache_marks: true, structured, ..usual }
            }
            // Only models that are asked for it cache at places that are marked; others do it by themselves.
            Provider::OpenRouter => Self { cache_marks: name.starts_with("claude"), ..usual },
            Provider::Ollama => Self { tool_choice: false, ..usual },
            Provider::Vllm | Provider::LlamaCpp => usual,
            // It refuses fields that it does not know, and ids are among them.
            Provider::VertexGemini => Self { call_ids: false, ..usual },
            Provider::GeminiChat
            | Provider::Gemini
            | Provider::Bedrock
            | Provider::BedrockResponses
            | Provider::Vertex
            | Provider::OpenAiCompatible => {
                let mistral = model.base_url.as_deref().is_some_and(|url| url.contains("//api.mistral.ai"));
                let ids = if mistral { Ids::Nine } else { Ids::Words };
                Self { ids, user_after_tools: usual.user_after_tools && !mistral, ..usual }
            }
        }
    }

    /// What to try instead after a refusal, and what was learned; `None` when the refusal is about something else. Each
    /// quirk changes at most once from its first value, so this cannot go on for ever.
    pub(crate) fn adapt(self, first: Self, complaint: &Complaint) -> Option<(Self, &'static str)> {
        // The name of a model may hold any word that a rule looks for.
        if complaint.names_no_model() {
            return None;
        }
        RULES.iter().find_map(|rule| {
            let mut adapted = self;
            let taught = rule(&mut adapted, first, complaint)?;
            (adapted != self).then_some((adapted, taught))
        })
    }
}

/// Models of Anthropic's that take no schema.
const OLDER: &[&str] = &[
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// Names of Mistral's models, which want to answer after the results of calls before anybody says something else.
const MISTRALS: &[&str] =
    &["mistral", "mixtral", "devstral", "codestral", "magistral", "ministral", "pixtral"];

/// What a refusal teaches: changes the quirks and says what was learned.
type Rule = fn(&mut Quirks, Quirks, &Complaint) -> Option<&'static str>;

const RULES: &[Rule] = &[
    |quirks, _, said| {
        said.names("stream_options").then(|| {
            quirks.stream_options = false;
            "the server does not know stream_options, so it may not report what a call used"
        })
    },
    |quirks, _, said| {
        let named = ["ncrypted content", "encrypted_content"].iter().any(|name| said.names(name));
        (named || said.takes_no("include")).then(|| {
            quirks.encrypted_reasoning = false;
            "the model gives no encrypted reasoning"
        })
    },
    |quirks, _, said| {
        said.takes_no("store").then(|| {
            quirks.store = false;
            "the server cannot be told to keep nothing, so it may keep what it is sent"
        })
    },
    |quirks, _, said| {
        said.takes_no("max_output_tokens").then(|| {
            quirks.answer_limit = false;
            "the server cannot be told how long an answer may be"
        })
    },
    |quirks, _, said| {
        (said.takes_no("instructions") && quirks.system == System::Apart).then(|| {
            quirks.system = System::Message;
            "the server has no place for instructions, so they stand in a message of their own"
        })
    },
    |quirks, _, said| {
        let ours = said.takes_no("strict") || said.names(".strict") && said.says_unsupported();
        (ours && said.names("tools")).then(|| {
            quirks.strict_tools = false;
            "the server does not know strict tools"
        })
    },
    // It stands before the rule of schemas, which are still good without.
    |quirks, _, said| {
        let demanded = said.says("to false") || said.says("be false");
        (said.names("additionalProperties") && said.says_unsupported() && !demanded).then(|| {
            quirks.closed_schemas = false;
            "the server does not take additionalProperties in a schema, so they are left out"
        })
    },
    |quirks, _, said| {
        ["thoughtSignature", "thought_signature"].iter().any(|name| said.takes_no(name)).then(|| {
            quirks.signatures = false;
            "the server takes no signatures of thoughts"
        })
    },
    |quirks, first, said| {
        let name = if quirks.completion_limit { "max_completion_tokens" } else { "max_tokens" };
        let fresh = quirks.completion_limit == first.completion_limit;
        (fresh && said.names(name) && said.says_unsupported()).then(|| {
            quirks.completion_limit = !quirks.completion_limit;
            "the server has the other name for the limit of an answer"
        })
    },
    |quirks, _, said| {
        let ours = said.names("tool_choice") || said.says("tool choice");
        (ours && !said.says("enable-auto-tool-choice") && quirks.tool_choice).then(|| {
            quirks.tool_choice = false;
            "the server cannot be told that a tool must be called"
        })
    },
    |quirks, _, said| {
        said.names("prompt_cache_key").then(|| {
            quirks.cache_key = false;
            "the server takes no key for its cache"
        })
    },
    |quirks, _, said| {
        said.names("cache_control").then(|| {
            quirks.cache_marks = false;
            "the server takes no marks for its cache"
        })
    },
    |quirks, _, said| {
        let schema = ["response_format", "json_schema", "output_config", "output_format", "text.format"];
        schema.iter().any(|name| said.names(name)).then(|| {
            quirks.structured = match quirks.structured {
                Structured::Schema if said.names("output_config") => Structured::Tool,
                Structured::Schema | Structured::Told => Structured::Object,
                Structured::Object | Structured::Tool | Structured::Asked => Structured::Asked,
            };
            "the server cannot hold an answer to a schema, so the model is asked to keep to it"
        })
    },
    |quirks, _, said| {
        let effort =
            ["reasoning_effort", "reasoning.effort", "thinking", "thinkingConfig", "thinking_config"];
        (effort.iter().any(|name| said.names(name)) && said.says_unsupported()).then(|| {
            quirks.effort = false;
            "the model cannot be told how much to think"
        })
    },
    |quirks, _, said| {
        said.names("temperature").then(|| {
            quirks.temperature = false;
            "the model has a temperature of its own"
        })
    },
    |quirks, _, said| {
        let images = ["image_url", "input_image", "image input", "images", "multimodal"];
        let refused =
            ["only supported", "unknown variant", "not a multimodal", "missing data", "no endpoints"];
        let ours = images.iter().any(|words| said.says(words));
        (ours && (said.says_unsupported() || refused.iter().any(|words| said.says(words)))).then(|| {
            quirks.images = false;
            "the model sees no images, so it is told of them in words"
        })
    },
    |quirks, _, said| {
        said.says("roles must alternate").then(|| {
            quirks.repeated_roles = false;
            "the model wants roles to alternate, so messages of one role are joined"
        })
    },
    // The second time that roles must alternate it is this.
    |quirks, _, said| {
        ["after role 'tool'", "after role tool", "roles must alternate"].iter().any(|words| said.says(words)).then(|| {
            quirks.user_after_tools = false;
            "the model wants to answer after results, so a word of it stands between them and what is said next"
        })
    },
    |quirks, _, said| {
        let words = [
            "system role not supported",
            "system role is not supported",
            "developer instruction is not enabled",
        ];
        words.iter().any(|words| said.says(words)).then(|| {
            quirks.system = System::FirstMessage;
            quirks.repeated_roles = false;
            "the model has no place for instructions, so they stand in the first message"
        })
    },
    |quirks, _, said| {
        said.says("single tool-call").then(|| {
            quirks.parallel_calls = false;
            "the model takes one call in a message, so earlier calls are written one after the other"
        })
    },
    |quirks, first, said| {
        (said.names("reasoning_content") && quirks.reasoning_back == first.reasoning_back).then(|| {
            quirks.reasoning_back = !quirks.reasoning_back;
            "the server is strict about earlier reasoning"
        })
    },
    |quirks, _, said| {
        said.says("unknown name \"id\"").then(|| {
            quirks.call_ids = false;
            "the server takes no ids of calls"
        })
    },
    |quirks, _, said| {
        said.says("length of 9").then(|| {
            quirks.ids = Ids::Nine;
            "the server takes only ids of nine letters"
        })
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::model::sample;

    fn refused(status: u16, message: &str) -> Complaint {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        Complaint::from_response(status, Hints::default(), &body)
    }

    #[test]
    fn a_refusal_teaches_one_thing_and_each_thing_once() {
        let first = Quirks::of(&sample(Provider::OpenAiCompatible, "m"));
        for (status, said) in [
            (400, "Unrecognized request argument supplied: stream_options"),
            (400, "Encrypted content is not supported with this model."),
            (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
            (400, "tool_choice 'required' is not supported"),
            (422, "response_format.type: json_schema is not available"),
            (400, "Unsupported parameter: 'reasoning_effort'"),
            (400, "Unsupported value: 'temperature' does not support 0.2 with this model."),
            (400, "Invalid content type. image_url is only supported by certain models."),
            (
                500,
                "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            ),
            (404, "No endpoints found that support image input"),
            (400, "qwen is not a multimodal model"),
            (422, "messages[1]: unknown variant `image_url`, expected `text`"),
            (500, "Conversation roles must alternate user/assistant/user/assistant/..."),
            (400, "Unexpected role 'user' after role 'tool'"),
            (500, "System role not supported"),
            (400, "This model only supports single tool-calls at once!"),
            (400, "Missing `reasoning_content` field in the assistant message"),
            (400, "Tool call id must be a-z, A-Z, 0-9, with a length of 9."),
            (400, "Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field."),
            (400, "Unknown name \"thoughtSignature\" at 'contents[1].parts[0]': Cannot find field."),
            (400, "Unknown parameter: 'store'."),
            (400, "Unsupported parameter: 'include'"),
            (400, "Unsupported parameter: 'max_output_tokens'"),
            (422, "[{\"loc\":[\"body\",\"instructions\"],\"msg\":\"Extra inputs are not permitted\"}]"),
            (400, "Unrecognized request argument supplied: store"),
            (400, "Unrecognized request arguments supplied: metadata, store"),
            (400, "max_output_tokens: Extra inputs are not permitted"),
            (400, "Unknown parameter: 'tools[0].strict'."),
            (400, "tools[0].function.parameters: additionalProperties is not supported"),
        ] {
            let complaint = refused(status, said);
            let (adapted, taught) = first.adapt(first, &complaint).unwrap_or_else(|| panic!("{said}"));
            assert!(!taught.is_empty());
            let mut now = adapted;
            let again = std::iter::from_fn(|| {
                now = now.adapt(first, &complaint)?.0;
                Some(())
            });
            assert!(again.take(10).count() < 3, "{said} never ends");
        }
    }

    #[test]
    fn roles_that_must_alternate_are_joined_and_then_kept_apart() {
        let first = Quirks::of(&sample(Provider::OpenAiCompatible, "m"));
        let refusal = refused(400, "After the optional system message, conversation roles must alternate");
        let (second, _) = first.adapt(first, &refusal).unwrap();
        assert_eq!((second.repeated_roles, second.user_after_tools), (false, true));
        let (third, _) = second.adapt(first, &refusal).unwrap();
        assert_eq!((third.repeated_roles, third.user_after_tools), (false, false));
        assert_eq!(third.adapt(first, &refusal), None);
        for (provider, name) in [
            (Provider::Vllm, "mistralai/Devstral-Small-2507"),
            (Provider::OpenRouter, "mistralai/mistral-medium-3"),
        ] {
            assert!(!Quirks::of(&sample(provider, name)).user_after_tools, "{name}");
        }
    }

    #[test]
    fn instructions_find_the_place_that_is_left_for_them() {
        let first = Quirks::of(&sample(Provider::OpenAiResponses, "m"));
        let refusal = refused(400, "Unknown parameter: 'instructions'.");
        let (second, _) = first.adapt(first, &refusal).unwrap();
        assert_eq!((second.system, second.adapt(first, &refusal)), (System::Message, None));
        let (third, _) = second.adapt(first, &refused(400, "System role not supported")).unwrap();
        assert_eq!((third.system, third.adapt(first, &refusal)), (System::FirstMessage, None));
    }

    #[test]
    fn what_is_no_quirk_teaches_nothing() {
        let first = Quirks::of(&sample(Provider::OpenAiCompatible, "m"));
        for (status, said) in [
            (400, "max_tokens is too large: 100000"),
            (400, "Unsupported content: the instructions include what is not in store"),
            (
                400,
                "Invalid schema for function 'f': 'additionalProperties' of other kinds is not supported, set it to false",
            ),
            (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
            (400, "Could not process image"),
            (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
            (401, "stream_options"),
            (400, "no such model"),
            (503, "Conversation roles must alternate"),
        ] {
            assert_eq!(first.adapt(first, &refused(status, said)), None, "{said}");
        }
    }

    #[test]
    fn a_schema_is_given_up_step_by_step() {
        let refusal = refused(400, "json_schema is not supported");
        let first = Quirks::of(&sample(Provider::OpenAiCompatible, "m"));
        let (second, _) = first.adapt(first, &refusal).unwrap();
        let (third, _) = second.adapt(first, &refusal).unwrap();
        assert_eq!(
            [first, second, third].map(|quirks| quirks.structured),
            [Structured::Schema, Structured::Object, Structured::Asked]
        );
        assert_eq!(third.adapt(first, &refusal), None);
        let anthropic = Quirks::of(&sample(Provider::Anthropic, "claude-sonnet-4-5"));
        let (adapted, _) = anthropic.adapt(anthropic, &refused(400, "output_config: Extra inputs")).unwrap();
        assert_eq!(adapted.structured, Structured::Tool);
    }
}
