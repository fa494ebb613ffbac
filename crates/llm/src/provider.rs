//! Who serves models: a few facts for each, on top of a wire format. Whatever is not listed here and speaks one of the
//! formats is reached with `base_url` and, where it needs them, headers.

use crate::wire::Format;

/// Who serves the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum Provider {
    /// Anthropic's messages API, or a server that speaks it.
    Anthropic,
    /// OpenAI's chat completions API.
    OpenAi,
    /// OpenAI's responses API, or a server that speaks it.
    OpenAiResponses,
    /// Google's Gemini in its own format, or a server that speaks it.
    Gemini,
    /// Google's Gemini, through its OpenAI-compatible address.
    GeminiChat,
    /// OpenRouter's chat completions.
    OpenRouter,
    /// Azure's chat completions.
    Azure,
    /// Azure's responses.
    AzureResponses,
    /// Amazon Bedrock's chat completions.
    Bedrock,
    /// Amazon Bedrock's responses.
    BedrockResponses,
    /// Amazon Bedrock's messages.
    BedrockAnthropic,
    /// Vertex AI's chat completions.
    Vertex,
    /// Anthropic's models at Vertex AI.
    VertexAnthropic,
    /// Gemini at Vertex AI, in its own format.
    VertexGemini,
    /// Ollama on this machine.
    Ollama,
    /// vLLM on this machine.
    Vllm,
    /// llama.cpp's server on this machine.
    LlamaCpp,
    /// Any server that speaks chat completions; needs a `base_url`.
    OpenAiCompatible,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// As a bearer token.
    Bearer,
    /// In a header of its own.
    Header(&'static str),
}

/// What an address ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// The usual end of the format.
    Usual,
    /// A publisher's model at Vertex AI, with this method.
    Published(&'static str, &'static str),
}

/// What is known of a provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Its name in the configuration file.
    pub(crate) name: &'static str,
    pub(crate) format: Format,
    /// Its own address, when it has one for everybody.
    pub(crate) base_url: Option<&'static str>,
    /// What an address looks like.
    pub(crate) example: &'static str,
    /// Where people usually keep its key.
    pub(crate) key_variable: Option<&'static str>,
    pub(crate) auth: Auth,
    pub(crate) path: Path,
    /// Whether it runs on machines of one's own: no key, no price, and a context as large as someone chose.
    pub(crate) local: bool,
}

const CHAT: Facts = Facts {
    name: "openai-compatible",
    format: Format::Chat,
    base_url: None,
    example: "http://127.0.0.1:8000/v1",
    key_variable: None,
    auth: Auth::Bearer,
    path: Path::Usual,
    local: false,
};
const RESPONSES: Facts = Facts { format: Format::Responses, ..CHAT };
const MESSAGES: Facts = Facts { format: Format::Anthropic, auth: Auth::Header("x-api-key"), ..CHAT };
const GEMINI: Facts = Facts { format: Format::Gemini, auth: Auth::Header("x-goog-api-key"), ..CHAT };
const LOCAL: Facts = Facts { local: true, ..CHAT };
const AZURE: Facts = Facts {
    example: "https://RESOURCE.openai.azure.com/openai/v1",
    key_variable: Some("AZURE_OPENAI_API_KEY"),
    auth: Auth::Header("api-key"),
    ..CHAT
};
const BEDROCK: Facts = Facts {
    example: "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
    key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
    ..CHAT
};
const VERTEX: Facts = Facts {
    example: "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION",
    key_variable: Some("VERTEX_ACCESS_TOKEN"),
    auth: Auth::Bearer,
    ..CHAT
};

impl Provider {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Anthropic,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::GeminiChat,
        Self::OpenRouter,
        Self::Azure,
        Self::AzureResponses,
        Self::Bedrock,
        Self::BedrockResponses,
        Self::BedrockAnthropic,
        Self::Vertex,
        Self::VertexAnthropic,
        Self::VertexGemini,
        Self::Ollama,
        Self::Vllm,
        Self::LlamaCpp,
        Self::OpenAiCompatible,
    ];

    /// Most images that a request to it should have.
    pub const fn images(self) -> usize {
        match self {
            Self::Bedrock | Self::BedrockResponses | Self::BedrockAnthropic => 20,
            Self::Anthropic
            | Self::OpenAi
            | Self::OpenAiResponses
            | Self::Gemini
            | Self::GeminiChat
            | Self::OpenRouter
            | Self::Azure
            | Self::AzureResponses
            | Self::Vertex
            | Self::VertexAnthropic
            | Self::VertexGemini
            | Self::Ollama
            | Self::Vllm
            | Self::LlamaCpp
            | Self::OpenAiCompatible => 50,
        }
    }

    /// The table.
    pub(crate) const fn facts(self) -> Facts {
        match self {
            Self::Anthropic => Facts {
                name: "anthropic",
                base_url: Some("https://api.anthropic.com/v1"),
                key_variable: Some("ANTHROPIC_API_KEY"),
                ..MESSAGES
            },
            Self::OpenAi => Facts {
                name: "openai",
                base_url: Some("https://api.openai.com/v1"),
                key_variable: Some("OPENAI_API_KEY"),
                ..CHAT
            },
            Self::OpenAiResponses => Facts {
                name: "openai-responses",
                base_url: Some("https://api.openai.com/v1"),
                key_variable: Some("OPENAI_API_KEY"),
                ..RESPONSES
            },
            Self::Gemini => Facts {
                name: "gemini",
                base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
                key_variable: Some("GEMINI_API_KEY"),
                ..GEMINI
            },
            Self::GeminiChat => Facts {
                name: "gemini-chat",
                base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
                key_variable: Some("GEMINI_API_KEY"),
                ..CHAT
            },
            Self::OpenRouter => Facts {
                name: "openrouter",
                base_url: Some("https://openrouter.ai/api/v1"),
                key_variable: Some("OPENROUTER_API_KEY"),
                ..CHAT
            },
            Self::Azure => Facts { name: "azure", ..AZURE },
            Self::AzureResponses => Facts { name: "azure-responses", format: Format::Responses, ..AZURE },
            Self::Bedrock => Facts { name: "bedrock", ..BEDROCK },
            Self::BedrockResponses => {
                Facts { name: "bedrock-responses", format: Format::Responses, ..BEDROCK }
            }
            Self::BedrockAnthropic => Facts {
                name: "bedrock-anthropic",
                format: Format::Anthropic,
                example: "https://bedrock-mantle.REGION.api.aws/anthropic/v1",
                ..BEDROCK
            },
            Self::Vertex => Facts {
                name: "vertex",
                example: "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/endpoints/openapi",
                ..VERTEX
            },
            Self::VertexAnthropic => Facts {
                name: "vertex-anthropic",
                format: Format::Anthropic,
                path: Path::Published("anthropic", "streamRawPredict"),
                ..VERTEX
            },
            Self::VertexGemini => Facts {
                name: "vertex-gemini",
                format: Format::Gemini,
                path: Path::Published("google", "streamGenerateContent"),
                ..VERTEX
            },
            Self::Ollama => Facts { name: "ollama", base_url: Some("http://127.0.0.1:11434/v1"), ..LOCAL },
            Self::Vllm => Facts { name: "vllm", base_url: Some("http://127.0.0.1:8000/v1"), ..LOCAL },
            Self::LlamaCpp => {
                Facts { name: "llama-cpp", base_url: Some("http://127.0.0.1:8080/v1"), ..LOCAL }
            }
            Self::OpenAiCompatible => CHAT,
        }
    }

    /// Its name in the configuration file.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The provider's own address, when it has one.
    pub fn base_url(self) -> Option<&'static str> {
        self.facts().base_url
    }

    /// What an address of it looks like, for one that must be configured.
    pub fn example_url(self) -> &'static str {
        self.facts().example
    }

    /// The environment variable in which people usually keep the provider's key.
    pub fn key_variable(self) -> Option<&'static str> {
        self.facts().key_variable
    }

    pub(crate) fn format(self) -> Format {
        self.facts().format
    }
}

impl TryFrom<String> for Provider {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        // What `gemini` was called while that name meant the address of chat completions.
        let name = if name == "gemini-native" { Self::Gemini.name().to_owned() } else { name };
        Self::ALL.into_iter().find(|provider| provider.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|provider| provider.name()).collect();
            format!("unknown provider \"{name}\", expected one of: {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_is_read_back() {
        for provider in Provider::ALL {
            assert_eq!(Provider::try_from(provider.name().to_owned()), Ok(provider));
        }
        let error = serde_json::from_value::<Provider>("acme".into()).unwrap_err().to_string();
        assert!(error.contains("acme") && error.contains("openai-compatible"), "{error}");
    }

    #[test]
    fn the_names_that_are_promised_stay() {
        for name in
            ["anthropic", "openai", "openai-responses", "gemini", "gemini-native", "openai-compatible"]
        {
            assert!(Provider::try_from(name.to_owned()).is_ok(), "{name}");
        }
        assert_eq!(Provider::try_from("gemini".to_owned()).map(Provider::format), Ok(Format::Gemini));
        assert_eq!(Provider::try_from("gemini-native".to_owned()), Ok(Provider::Gemini));
    }
}
