//! `GET /` where the web app was not built: a page for a person who opened the address in a browser. No scripts, no data.

use axum::http::header;
use axum::response::{IntoResponse, Response};

const PAGE: &str = concat!(
    r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Slipway</title>
</head>
<body>
<h1>Slipway is running</h1>
<p>Version "#,
    env!("CARGO_PKG_VERSION"),
    r#". The API is at <code>/api/v1</code>; <a href="/api/v1/openapi.json">its description</a> lists every route.</p>
<p>The web app is not in this program. <code>make web</code> builds it, which needs Node; <code>make build</code> then puts it in.</p>
<p>From a terminal:</p>
<pre>
slipway env ls                           the environments there are
slipway run --env NAME "what to do"      give the agent a task and watch it work
slipway ls                               the sessions
slipway attach SESSION                   watch one, from its beginning
slipway diff SESSION                     what it changed
slipway doctor                           what holds on this machine
</pre>
</body>
</html>
"#
);

/// Says that Slipway runs and how to go on.
pub(crate) fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}
