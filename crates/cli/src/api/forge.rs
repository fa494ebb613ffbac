//! What commands ask of a server about forges: pull requests, branches, and who signed in where.

use std::path::Path;

use anyhow::Context;
use futures_util::StreamExt;
use protocol::*;
use reqwest::Method;
use tokio::io::AsyncWriteExt;

use super::Api;

impl Api {
    /// A session's pull request, as the forge has it now; that of a repository, where there are several.
    pub(crate) async fn pull_request(
        &self,
        id: SessionId,
        repository: Option<&str>,
    ) -> anyhow::Result<PullRequest> {
        let path = format!("/sessions/{id}/pull-request{}", of(repository));
        self.ask(Method::GET, &path, None::<()>).await
    }

    /// Changes it.
    pub(crate) async fn edit_pull_request(
        &self,
        id: SessionId,
        repository: Option<&str>,
        edit: &EditPullRequest,
    ) -> anyhow::Result<PullRequest> {
        let path = format!("/sessions/{id}/pull-request{}", of(repository));
        self.ask(Method::PATCH, &path, Some(edit)).await
    }

    /// Queues a turn that brings the branch up to date with its base.
    pub(crate) async fn rebase(&self, id: SessionId) -> anyhow::Result<PromptCreated> {
        self.ask(Method::POST, &format!("/sessions/{id}/rebase"), None::<()>).await
    }

    /// Writes a session's commits to a file; those of a repository, where there are several.
    pub(crate) async fn bundle(
        &self,
        id: SessionId,
        repository: Option<&str>,
        to: &Path,
    ) -> anyhow::Result<()> {
        let request = self.http.get(format!("{}/api/v1/sessions/{id}/bundle{}", self.url, of(repository)));
        let mut parts = Box::pin(self.accepted(request).await?.bytes_stream());
        let written = || format!("cannot write {}", to.display());
        let mut file = tokio::fs::File::create(to).await.with_context(written)?;
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| self.unreachable(&error))?;
            file.write_all(&part).await.with_context(written)?;
        }
        file.flush().await.with_context(written)
    }

    /// The forges, with who the caller is at each.
    pub(crate) async fn logins(&self) -> anyhow::Result<ForgeLogins> {
        self.ask(Method::GET, "/logins", None::<()>).await
    }

    /// Signs in with a token.
    pub(crate) async fn set_login(&self, forge: &str, token: &str) -> anyhow::Result<ForgeLogin> {
        let body = SetLogin { token: token.to_owned() };
        self.ask(Method::PUT, &format!("/logins/{forge}"), Some(body)).await
    }

    /// Forgets the caller's token.
    pub(crate) async fn remove_login(&self, forge: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, &format!("/logins/{forge}"), None).await.map(drop)
    }

    /// Begins to sign in with a code.
    pub(crate) async fn begin_login(&self, forge: &str) -> anyhow::Result<DeviceLogin> {
        self.ask(Method::POST, &format!("/logins/{forge}/device"), None::<()>).await
    }

    /// Looks whether the code was typed in.
    pub(crate) async fn continue_login(&self, forge: &str, attempt: &str) -> anyhow::Result<DeviceState> {
        self.ask(Method::POST, &format!("/logins/{forge}/device/{attempt}"), None::<()>).await
    }
}

/// Which repository is meant. Its name is a path of plain letters.
fn of(repository: Option<&str>) -> String {
    repository.map(|name| format!("?repository={}", name.replace('+', "%2B"))).unwrap_or_default()
}
