//! GitHub's REST API, as github.com and its enterprise server speak it.

use async_trait::async_trait;
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;

use super::{Forge, NewPullRequest, PullRequest, Repository};
use crate::Token;
use crate::http::{self, Answer, Http, Refusal};

/// The version of the API that this speaks.
const VERSION: &str = "2022-11-28";
/// GitHub takes titles of 256 characters and bodies of 65,536.
const TITLE_LIMIT: usize = 256;
const BODY_LIMIT: usize = 60_000;

/// Where the API of the forge at this address is, unless somebody says otherwise.
pub fn api_url(address: &str) -> String {
    let address = address.trim_end_matches('/');
    match address {
        "https://github.com" => "https://api.github.com".to_owned(),
        _ => format!("{address}/api/v3"),
    }
}

/// GitHub.
#[derive(Debug)]
pub struct GitHub {
    api: Url,
    who: String,
    token: Option<Token>,
    /// Where the token comes from, for messages.
    source: String,
    http: Http,
}

/// What of a pull request matters here.
#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    state: String,
    head: Head,
}

#[derive(Debug, Deserialize)]
struct Head {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        Self { number: pull.number, url: pull.html_url }
    }
}

/// What GitHub says when it does not like a request.
#[derive(Debug, Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    errors: Vec<Detail>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Detail {
    Said { message: String },
    Field { field: String, code: String },
    Other(serde_json::Value),
}

impl std::fmt::Display for Detail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Said { message } => f.write_str(message),
            Self::Field { field, code } => write!(f, "{field} is {code}"),
            Self::Other(value) => write!(f, "{value}"),
        }
    }
}

impl GitHub {
    /// A forge with this API and token; `source` says where the token comes from, such as the name of a variable. Without a
    /// token everything is refused with words that say so.
    pub fn new(api_url: &str, token: Option<Token>, source: &str) -> Result<Self, String> {
        let api = http::address(api_url)?;
        let who = api.host_str().unwrap_or_default().to_owned();
        Ok(Self { http: Http::new(&api)?, api, who, token, source: source.to_owned() })
    }

    fn pulls(&self, repository: &Repository) -> Result<Url, Refusal> {
        let mut url = self.api.clone();
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(["repos", &repository.owner, &repository.name, "pulls"]);
            }
            Err(()) => return Err(Refusal::last(format!("{} is no address of an API", self.api))),
        }
        Ok(url)
    }

    fn prepared(&self, request: RequestBuilder) -> Result<RequestBuilder, Refusal> {
        let Some(token) = &self.token else {
            return Err(Refusal::last(format!(
                "there is no token for {}: set {} where the server runs, and start it again",
                self.who, self.source
            )));
        };
        Ok(request
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", VERSION)
            .bearer_auth(token.expose()))
    }

    fn secrets(&self) -> Vec<&Token> {
        self.token.iter().collect()
    }

    /// What an answer means that is no success.
    fn refusal(&self, answer: &Answer, repository: &Repository) -> Refusal {
        if let Some(passing) = answer.passing(&self.who, &self.secrets()) {
            return passing;
        }
        let (who, said) = (&self.who, answer.said(&self.secrets()));
        let status = answer.status.as_u16();
        Refusal::last(match status {
            401 => format!("{who} does not accept the token in {}: {said}", self.source),
            403 => format!("{who} does not let the token in {} do this: {said}", self.source),
            404 => format!(
                "{who} has no repository {repository}, or the token in {} may not see it: {said}",
                self.source
            ),
            301 | 302 | 307 | 308 => {
                format!("{repository} has moved: give the environment its new address")
            }
            422 => {
                let complaint: Complaint = serde_json::from_slice(&answer.body).unwrap_or_default();
                let details: Vec<String> = complaint.errors.iter().map(Detail::to_string).collect();
                let details = http::tame(&details.join("; "), &self.secrets());
                format!("{who} does not take the pull request: {said}: {details}")
            }
            _ => format!("{who} answered {status}: {said}"),
        })
    }

    fn unreadable(&self, error: &serde_json::Error) -> Refusal {
        Refusal::Later {
            message: format!("{} gave an answer that is not its API's: {error}", self.who),
            doubtful: true,
            wait: None,
        }
    }
}

#[async_trait]
impl Forge for GitHub {
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let head = format!("{}:{}", wanted.repository.owner, wanted.branch);
        let mut url = self.pulls(&wanted.repository)?;
        url.query_pairs_mut().extend_pairs([
            ("state", "all"),
            ("head", &head),
            ("sort", "created"),
            ("direction", "desc"),
            ("per_page", "100"),
        ]);
        let answer = self.http.send(&self.who, self.prepared(self.http.client().get(url))?).await?;
        if answer.status.as_u16() != 200 {
            return Err(self.refusal(&answer, &wanted.repository));
        }
        let pulls: Vec<Pull> =
            serde_json::from_slice(&answer.body).map_err(|error| self.unreadable(&error))?;
        // A forge that does not know the filter gives all; then somebody else's would be taken for ours.
        let mut ours: Vec<Pull> =
            pulls.into_iter().filter(|pull| pull.head.branch == wanted.branch).collect();
        let place = ours
            .iter()
            .position(|pull| pull.state == "open")
            .or_else(|| ours.iter().position(|pull| pull.head.sha == wanted.commit));
        Ok(place.map(|place| ours.swap_remove(place).into()))
    }

    async fn open(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let url = self.pulls(&wanted.repository)?;
        let body = serde_json::json!({
            "title": cut(&wanted.title, TITLE_LIMIT),
            "head": wanted.branch,
            "base": wanted.base,
            "body": cut(&wanted.body, BODY_LIMIT),
        });
        let request = self.prepared(self.http.client().post(url))?.json(&body);
        let answer = self.http.send(&self.who, request).await?;
        match answer.status.as_u16() {
            201 => {
                let pull: Pull =
                    serde_json::from_slice(&answer.body).map_err(|error| self.unreadable(&error))?;
                Ok(Some(pull.into()))
            }
            422 if already_exists(&answer.body) => Ok(None),
            _ => Err(self.refusal(&answer, &wanted.repository)),
        }
    }
}

fn already_exists(body: &[u8]) -> bool {
    let complaint: Complaint = serde_json::from_slice(body).unwrap_or_default();
    complaint.errors.iter().any(|detail| detail.to_string().contains("already exists"))
}

fn cut(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_of_github_is_somewhere_else_than_that_of_others() {
        assert_eq!(api_url("https://github.com/"), "https://api.github.com");
        assert_eq!(api_url("https://git.example"), "https://git.example/api/v3");
    }

    #[test]
    fn complaints_are_read() {
        let exists = br#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for acme:x."}]}"#;
        assert!(already_exists(exists));
        let invalid = br#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"head","code":"invalid"}]}"#;
        assert!(!already_exists(invalid) && !already_exists(b"<html>"));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("äöü", 2), cut("äöü", 3)), ("äö", "äöü"));
    }
}
