//! The webhook: a small JSON document goes to one address, with a key that tells the receiver when it has it already, and
//! a signature when there is a secret.

use std::fmt;

use reqwest::Url;
use sha2::{Digest, Sha256};

use crate::Token;
use crate::http::{self, Http, Refusal};

/// The header with the signature.
const SIGNATURE: &str = "x-slipway-signature-256";
/// Bytes that SHA-256 takes in at once.
const BLOCK: usize = 64;

/// Where notifications go.
pub struct Webhook {
    address: Url,
    who: String,
    secret: Option<Token>,
    http: Http,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhook").field(&self.who).finish()
    }
}

impl Webhook {
    /// A webhook at this address; what it sends is signed with the secret.
    pub fn new(address: &str, secret: Option<Token>) -> Result<Self, String> {
        let address = http::address(address)?;
        // The rest of the address may be what lets us in.
        let who = format!("the receiver at {}", address.host_str().unwrap_or_default());
        Ok(Self { http: Http::new(&address)?, address, who, secret })
    }

    /// Posts a document. It is received once the answer is a success; the same key may be sent again before that.
    pub async fn post(&self, key: &str, body: &serde_json::Value) -> Result<(), Refusal> {
        let body = body.to_string();
        let mut request = self
            .http
            .client()
            .post(self.address.clone())
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        if let Some(secret) = &self.secret {
            request = request.header(SIGNATURE, format!("sha256={}", sign(secret, body.as_bytes())));
        }
        let answer = self.http.send(&self.who, request.body(body)).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        let secrets: Vec<&Token> = self.secret.iter().collect();
        // Somebody works on the same key at this moment.
        let at_work = answer.status.as_u16() == 409;
        let refused = format!("{} answered {}", self.who, answer.status.as_u16());
        Err(match answer.passing(&self.who, &secrets) {
            Some(passing) => passing,
            None if at_work => Refusal::Later { message: refused, doubtful: true, wait: answer.wait },
            None => Refusal::last(refused),
        })
    }
}

/// HMAC-SHA256 as lower-case hexadecimal.
fn sign(secret: &Token, body: &[u8]) -> String {
    let secret = secret.expose().as_bytes();
    let mut key = [0; BLOCK];
    if secret.len() > BLOCK {
        key[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        key[..secret.len()].copy_from_slice(secret);
    }
    let inner = Sha256::new().chain_update(key.map(|byte| byte ^ 0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(key.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_standard() {
        // Test case 2 of RFC 4231.
        assert_eq!(
            sign(&Token::new("Jefe"), b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        // A key of a block and more is replaced by its digest.
        let long = "k".repeat(65);
        assert_ne!(sign(&Token::new(&long), b"x"), sign(&Token::new(&long[..64]), b"x"));
        assert_eq!(sign(&Token::new(&long), b"x").len(), 64);
    }

    #[test]
    fn only_what_can_be_called_is_an_address() {
        for bad in ["", "hook", "ftp://x/y", "https://"] {
            assert!(Webhook::new(bad, None).is_err(), "{bad}");
        }
        let hook = Webhook::new("https://hooks.example/T0/s3cret", Some(Token::new("s3cret"))).unwrap();
        assert!(!format!("{hook:?} {}", hook.who).contains("s3cret"));
    }
}
