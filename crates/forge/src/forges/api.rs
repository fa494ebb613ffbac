//! What the REST interfaces of forges have in common: JSON in and out, a token in a header, and statuses whose meaning is the
//! same everywhere.

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Repository;
use super::keys::Key;
use crate::http::{self, Answer, Http, Refusal};

/// How a token is written in the header `Authorization`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scheme {
    Bearer,
    Token,
}

/// What a repository is called, by the words of each forge.
#[derive(Deserialize)]
struct Place {
    full_name: Option<String>,
    path_with_namespace: Option<String>,
    html_url: Option<String>,
    web_url: Option<String>,
}

/// One forge's API.
#[derive(Debug, Clone)]
pub(super) struct Api {
    base: Url,
    pub(super) who: String,
    http: Http,
    scheme: Scheme,
    headers: &'static [(&'static str, &'static str)],
}

impl Api {
    pub(super) fn new(
        api_url: &str,
        scheme: Scheme,
        headers: &'static [(&'static str, &'static str)],
    ) -> Result<Self, String> {
        let base = http::address(api_url)?;
        let who = base.host_str().unwrap_or_default().to_owned();
        Ok(Self { http: Http::new(&base)?, base, who, scheme, headers })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// An address below the API; each part is escaped by itself.
    pub(super) fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Result<Url, Refusal> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(parts);
            }
            Err(()) => return Err(Refusal::last(format!("{} is no address of an API", self.base))),
        }
        Ok(url)
    }

    pub(super) async fn get(&self, url: Url, key: &Key) -> Result<Answer, Refusal> {
        self.call(Method::GET, url, key, None).await
    }

    /// Sends a request and reads the answer, whatever its status.
    pub(super) async fn call(
        &self,
        method: Method,
        url: Url,
        key: &Key,
        body: Option<&Value>,
    ) -> Result<Answer, Refusal> {
        let name = match self.scheme {
            Scheme::Bearer => "Bearer",
            Scheme::Token => "token",
        };
        let Ok(mut secret) =
            reqwest::header::HeaderValue::from_str(&format!("{name} {}", key.token.expose()))
        else {
            return Err(Refusal::last(format!("{} has characters that no token has", key.source)));
        };
        secret.set_sensitive(true);
        let mut request = self.http.client().request(method, url).header("authorization", secret);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        self.http.send(&self.who, request).await
    }

    /// The text at an address that the forge sent us to, which is asked for without a token; None when it is not there.
    pub(super) async fn text_at(&self, answer: Answer) -> Result<Option<String>, Refusal> {
        let answer = match &answer.location {
            Some(place) if answer.status.is_redirection() && matches!(place.scheme(), "http" | "https") => {
                self.http.send(&self.who, self.http.client().get(place.clone())).await?
            }
            _ => answer,
        };
        match answer.status.as_u16() {
            200 => Ok(Some(String::from_utf8_lossy(&answer.body).into_owned())),
            _ => answer.passing(&self.who, &[]).map_or(Ok(None), Err),
        }
    }

    /// Reads what the forge promised for this status.
    pub(super) fn read<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Refusal> {
        serde_json::from_slice(&answer.body).map_err(|error| Refusal::Later {
            message: format!("{} gave an answer that is not its API's: {error}", self.who),
            doubtful: true,
            wait: None,
        })
    }

    /// Reads an answer of one of these statuses, and takes every other as a refusal.
    pub(super) fn expect<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        statuses: &[u16],
        key: &Key,
        repository: &Repository,
    ) -> Result<T, Refusal> {
        match statuses.contains(&answer.status.as_u16()) {
            true => self.read(answer),
            false => Err(self.refusal(answer, key, repository, "")),
        }
    }

    /// The same of an answer to the first request of several: a repository that has moved is told with where it is now.
    pub(super) async fn expect_there<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        key: &Key,
        repository: &Repository,
    ) -> Result<T, Refusal> {
        if answer.status.is_redirection()
            && let Some(now) = self.moved_to(answer, key).await
        {
            return Err(Refusal::last(format!(
                "{repository} has moved to {now}: give the environment that address"
            )));
        }
        self.expect(answer, &[200], key, repository)
    }

    /// Where a repository is now, if it is not where this address of the API says: its address, or its name.
    pub(super) async fn moved(
        &self,
        url: Url,
        key: &Key,
        repository: &Repository,
    ) -> Result<Option<String>, Refusal> {
        let answer = self.get(url, key).await?;
        if answer.status.is_redirection() {
            return Ok(self.moved_to(&answer, key).await);
        }
        // Some give the repository as it is now instead of saying where it went.
        let now: Place = self.expect(&answer, &[200], key, repository)?;
        let name = now.full_name.or(now.path_with_namespace);
        let moved = name.filter(|name| !name.eq_ignore_ascii_case(&repository.to_string()));
        Ok(moved.map(|name| http::tame(&now.html_url.or(now.web_url).unwrap_or(name), &[&key.token])))
    }

    /// Where a repository is now. The forge itself is asked, and nobody else: where an answer leads away from it, nothing is
    /// sent there.
    async fn moved_to(&self, answer: &Answer, key: &Key) -> Option<String> {
        let place = answer.location.as_ref().filter(|place| place.origin() == self.base.origin())?;
        let base: Vec<&str> = self.base.path_segments()?.filter(|part| !part.is_empty()).collect();
        let parts: Vec<&str> = place.path_segments()?.collect();
        let rest = parts.strip_prefix(base.as_slice())?;
        let length = match rest.first()? {
            &"repositories" | &"projects" => 2,
            &"repos" => 3,
            _ => return None,
        };
        let mut url = self.base.clone();
        url.set_path(&parts.get(..base.len() + length)?.join("/"));
        let answer = self.get(url, key).await.ok()?;
        let now: Value = serde_json::from_slice(&answer.body).ok()?;
        let text = |keys: [&str; 2]| keys.iter().find_map(|key| now.get(key)?.as_str());
        let shown = text(["html_url", "web_url"]).or_else(|| text(["full_name", "path_with_namespace"]))?;
        Some(http::tame(shown, &[&key.token]))
    }

    /// What an answer means that is no success; `details` are what the forge says beside its message.
    pub(super) fn refusal(
        &self,
        answer: &Answer,
        key: &Key,
        repository: &Repository,
        details: &str,
    ) -> Refusal {
        let secrets = [&key.token];
        if let Some(passing) = answer.passing(&self.who, &secrets) {
            return passing;
        }
        let (who, source, said) = (&self.who, &key.source, answer.said(&secrets));
        let details = http::tame(details, &secrets);
        let said = if details.is_empty() { said } else { format!("{said}: {details}") };
        Refusal::last(match answer.status.as_u16() {
            401 => format!("{who} does not accept {source}: {said}"),
            403 => format!("{who} does not let {source} do this: {said}"),
            404 => format!("{who} has no repository {repository}, or {source} may not see it: {said}"),
            301 | 302 | 307 | 308 => moved(repository),
            // GitLab says it so for what is more than a question.
            405 if said.contains("moved projects") => moved(repository),
            400 | 409 | 412 | 422 => format!("{who} does not take the pull request: {said}"),
            status => format!("{who} answered {status}: {said}"),
        })
    }
}

fn moved(repository: &Repository) -> String {
    format!("{repository} has moved: give the environment its new address")
}
