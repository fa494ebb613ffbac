//! The web app: the files that were put into the program when it was built. They have no data, so everybody may have them,
//! and whoever opens any address of the app gets its page, which then asks the API.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

/// A file of the app.
pub(crate) struct File {
    /// Its name from the root, without a slash before it.
    pub(crate) name: &'static str,
    /// Changes with the content.
    pub(crate) sum: &'static str,
    /// What it is.
    pub(crate) content: &'static [u8],
    /// The same, compressed.
    pub(crate) brotli: Option<&'static [u8]>,
}

/// The files of this program, in the order of their names; none where the app was not built.
static BUILT: &[File] = include!(concat!(env!("OUT_DIR"), "/site.rs"));

/// The page that every address of the app has.
const PAGE: &str = "index.html";

/// What pages may do: use our own files and our own API, and nothing that is written into the page itself, attributes for
/// styles included. Sizes and places are set by scripts, as properties.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      font-src 'self'; connect-src 'self'; worker-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the app.
#[derive(Clone, Copy)]
pub(crate) struct Site(&'static [File]);

impl Site {
    /// As it was built.
    pub(crate) fn built() -> Self {
        Self(BUILT)
    }

    /// With these files, in the order of their names.
    #[cfg(test)]
    pub(crate) fn of(files: &'static [File]) -> Self {
        Self(files)
    }

    /// The answer to a request for this path; None where the app has nothing to say.
    pub(crate) fn answer(self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
        if !is_public(method, path) {
            return None;
        }
        let name = path.trim_start_matches('/');
        let file = self.find(name).or_else(|| {
            // What looks like a file and is none is a mistake; everything else is an address of the app.
            let last = name.rsplit('/').next().unwrap_or_default();
            if last.contains('.') { None } else { self.find(PAGE) }
        })?;
        Some(file.answer(headers))
    }

    fn find(self, name: &str) -> Option<&'static File> {
        self.0.binary_search_by(|file| file.name.cmp(name)).ok().map(|place| &self.0[place])
    }
}

/// Whether a path is outside the API: what is there has no data, and whoever opens it in a browser cannot send a token.
pub(crate) fn is_public(method: &Method, path: &str) -> bool {
    (*method == Method::GET || *method == Method::HEAD) && path != "/api" && !path.starts_with("/api/")
}

impl File {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let brotli = self.brotli.filter(|_| accepts_brotli(headers));
        let tag = format!("\"{}{}\"", self.sum, if brotli.is_some() { "-br" } else { "" });
        let known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|one| one.trim().trim_start_matches("W/") == tag || one.trim() == "*");
        let body = if known { Body::empty() } else { Body::from(brotli.unwrap_or(self.content)) };
        let mut response = Response::new(body);
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let own = response.headers_mut();
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(self.name)));
        own.insert(header::CACHE_CONTROL, HeaderValue::from_static(self.caching()));
        own.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        own.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            own.insert(header::ETAG, tag);
        }
        if brotli.is_some() {
            own.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        if self.name == "sw.js" {
            own.insert("service-worker-allowed", HeaderValue::from_static("/"));
        }
        response
    }

    /// A name in `assets` has a sum of the content in it, so what is there never changes; all else is asked for again.
    fn caching(&self) -> &'static str {
        if self.name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" }
    }
}

/// Whether the client takes files that are compressed with Brotli.
fn accepts_brotli(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    offers.flat_map(|value| value.split(',')).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("br"));
        let refused = parts
            .filter_map(|part| part.strip_prefix("q="))
            .any(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        named && !refused
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brotli_is_sent_to_those_who_take_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            accepts_brotli(&headers)
        };
        assert!(accepts("gzip, deflate, br, zstd"));
        assert!(accepts("BR;q=0.1"));
        for refused in ["gzip", "br;q=0", "br; q=0.0", "brotli", "identity"] {
            assert!(!accepts(refused), "{refused}");
        }
        assert!(!accepts_brotli(&HeaderMap::new()));
    }

    #[test]
    fn what_was_built_is_in_order() {
        let names: Vec<&str> = BUILT.iter().map(|file| file.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.is_empty() || names.contains(&PAGE));
    }
}
