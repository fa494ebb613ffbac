//! What the REST interfaces of forges have in common: JSON in and out, a token in a header, and statuses whose meaning is the
//! same everywhere.

use std::ops::ControlFlow;

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Repository;
use super::keys::Key;
use crate::Token;
use crate::http::{self, Answer, Http, Part, Read, Refusal};

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

/// A list of a forge, which it gives in pages.
#[derive(Debug)]
pub(super) struct List {
    /// Its address, with what is asked of it beside the page.
    pub(super) url: Url,
    /// What the size of a page is called.
    pub(super) by: &'static str,
    /// Entries of a page, as many as the forge gives at once.
    pub(super) size: usize,
    /// The most entries that are looked at.
    pub(super) most: usize,
    pub(super) end: End,
}

/// How the last page is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// It has fewer entries than were asked for.
    Short,
    /// It is empty: the server may give fewer than it is asked for, and still have more.
    Empty,
}

/// How far a list was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// To its end.
    All,
    /// To what was looked for.
    Enough,
    /// As far as anybody looks.
    Bound,
}

/// The most requests for one list.
const REQUESTS: usize = 60;

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
        match self.read_part(method, url, key, body, Part::Whole).await? {
            Read::Answer(answer) => Ok(answer),
            Read::TooLong => Err(http::too_long(&self.who)),
        }
    }

    /// Sends a request, and again with another token where the forge took back the one that an app minted before.
    async fn read_part(
        &self,
        method: Method,
        url: Url,
        key: &Key,
        body: Option<&Value>,
        part: Part,
    ) -> Result<Read, Refusal> {
        let token = key.token();
        let read = self.ask((method.clone(), url.clone()), (key, &token), body, part).await?;
        match &read {
            Read::Answer(answer) if answer.status.as_u16() == 401 && key.renew(&token).await? => {
                self.ask((method, url), (key, &key.token()), body, part).await
            }
            Read::Answer(_) | Read::TooLong => Ok(read),
        }
    }

    async fn ask(
        &self,
        (method, url): (Method, Url),
        (key, token): (&Key, &Token),
        body: Option<&Value>,
        part: Part,
    ) -> Result<Read, Refusal> {
        let name = match self.scheme {
            Scheme::Bearer => "Bearer",
            Scheme::Token => "token",
        };
        let Ok(mut secret) = reqwest::header::HeaderValue::from_str(&format!("{name} {}", token.expose()))
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
        self.http.read(&self.who, request, part).await
    }

    /// The end of a log, which the forge has itself or sends us elsewhere for; there it is asked for without a token. None when
    /// there is none.
    pub(super) async fn log(&self, url: Url, key: &Key) -> Result<Option<String>, Refusal> {
        let mut read = self.read_part(Method::GET, url, key, None, Part::Tail).await?;
        if let Read::Answer(Answer { status, location: Some(place), .. }) = &read
            && status.is_redirection()
            && matches!(place.scheme(), "http" | "https")
        {
            let request = self.http.client().get(place.clone());
            read = self.http.read(&self.who, request, Part::Tail).await?;
        }
        let Read::Answer(answer) = read else { return Err(http::too_long(&self.who)) };
        match answer.status.as_u16() {
            200 => Ok(Some(answer.tail())),
            _ => answer.passing(&self.who, &[]).map_or(Ok(None), Err),
        }
    }

    /// Looks at the entries of a list, page by page, until there are no more, `see` has seen enough, or there were more than
    /// anybody has. A page that is too long is asked for in smaller ones, and an entry that is too long by itself is passed over.
    pub(super) async fn list<P, T>(
        &self,
        list: &List,
        (key, repository): (&Key, &Repository),
        mut see: impl FnMut(T) -> ControlFlow<()> + Send,
    ) -> Result<Seen, Refusal>
    where
        P: DeserializeOwned + Into<Vec<T>>,
    {
        let (mut size, mut given, mut page) = (list.size, list.size, 1);
        let (mut seen, mut requests) = (0, 0);
        while seen < list.most && requests < REQUESTS {
            requests += 1;
            let mut url = list.url.clone();
            url.query_pairs_mut().extend_pairs([(list.by, size.to_string()), ("page", page.to_string())]);
            let answer = match self.read_part(Method::GET, url, key, None, Part::Whole).await? {
                Read::Answer(answer) => answer,
                Read::TooLong if size == 1 => {
                    page += 1;
                    continue;
                }
                Read::TooLong => {
                    // A server that gives less than it is asked for has begun its pages elsewhere.
                    let before = (page - 1) * given.min(size);
                    size = (size / 5).max(1);
                    page = before / size + 1;
                    continue;
                }
            };
            let entries: Vec<T> = self.expect_there::<P>(&answer, key, repository).await?.into();
            given = entries.len();
            seen += given;
            for entry in entries {
                if see(entry).is_break() {
                    return Ok(Seen::Enough);
                }
            }
            match list.end {
                End::Short if given < size => return Ok(Seen::All),
                End::Empty if given == 0 => return Ok(Seen::All),
                End::Short | End::Empty => page += 1,
            }
        }
        Ok(Seen::Bound)
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
        Ok(moved.map(|name| http::tame(&now.html_url.or(now.web_url).unwrap_or(name), &[&key.token()])))
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
        Some(http::tame(shown, &[&key.token()]))
    }

    /// What an answer means that is no success; `details` are what the forge says beside its message.
    pub(super) fn refusal(
        &self,
        answer: &Answer,
        key: &Key,
        repository: &Repository,
        details: &str,
    ) -> Refusal {
        let token = key.token();
        let secrets = [&token];
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
            400 | 409 | 412 | 422 => format!("{who} does not take the pull request with {source}: {said}"),
            status => format!("{who} answered {status}: {said}"),
        })
    }
}

fn moved(repository: &Repository) -> String {
    format!("{repository} has moved: give the environment its new address")
}
