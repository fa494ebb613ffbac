//! The addresses of clouds: Bedrock's and Vertex AI's. They speak the usual formats with a few differences, and refuse what
//! the providers' own servers would let pass.

use serde_json::{Value, json};

use super::request::{Format, Request, Violation};

/// What the paths of Vertex AI begin with, of which the rest names publisher, model and method.
const PUBLISHED: &str = "/publishers/";

/// The only version of the messages format at Vertex AI.
const VERSION: &str = "vertex-2023-10-16";

/// Whether the path is a cloud's. Clouds take the key as a bearer token only.
pub(super) fn is_cloud(path: &str) -> bool {
    ["/openai/", "/anthropic/", "/v1/projects/"].iter().any(|begin| path.starts_with(begin))
}

/// The format of a call below `/publishers/`, by publisher and method.
pub(super) fn format(path: &str) -> Option<Format> {
    let (publisher, call) = path.split_once(PUBLISHED)?.1.split_once("/models/")?;
    match (publisher, call.rsplit_once(':')?.1) {
        ("google", "streamGenerateContent") => Some(Format::Gemini),
        ("anthropic", "streamRawPredict") => Some(Format::Anthropic),
        _ => None,
    }
}

/// Checks what a cloud is strict about, and gives the body as the provider's own server would have it.
pub(super) fn plain(request: &Request, path: &str) -> Result<Value, Violation> {
    let mut json = request.json.clone();
    if !is_cloud(path) {
        return Ok(json);
    }
    if let Some(name) = ["x-api-key", "x-goog-api-key"].iter().find(|name| request.header(name).is_some()) {
        return Err(format!("a cloud knows no {name} header"));
    }
    if path.contains(PUBLISHED) && request.format == Format::Anthropic {
        let body = json.as_object_mut().ok_or("the body must be an object")?;
        match body.remove("anthropic_version") {
            Some(version) if version == VERSION => {}
            other => return Err(format!("anthropic_version must be {VERSION}, and is {other:?}")),
        }
        let call = path.rsplit('/').next().unwrap_or_default();
        let model = call.split_once(':').map_or(call, |(model, _)| model);
        if body.insert("model".to_owned(), json!(model)).is_some() {
            return Err("model: extra inputs are not permitted".to_owned());
        }
    }
    if request.format == Format::Gemini {
        let parts =
            json["contents"].as_array().into_iter().flatten().enumerate().flat_map(|(place, content)| {
                content["parts"].as_array().into_iter().flatten().map(move |part| (place, part))
            });
        for (place, part) in parts {
            for (kind, name) in [("functionCall", "function_call"), ("functionResponse", "function_response")]
            {
                if part[kind].get("id").is_some() {
                    return Err(format!(
                        "Unknown name \"id\" at 'contents[{place}].{name}': Cannot find field."
                    ));
                }
            }
        }
    }
    Ok(json)
}
