//! Sending a report to a webhook: one POST of JSON.

use std::sync::Arc;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::work::spec::Webhook;

/// Most bytes that are shown of an answer which refuses the report.
const ANSWER_SHOWN: u64 = 200;

/// Sends it. The machine's own certificates are trusted, as those of its administrator are.
pub fn post(hook: &Webhook, json: &str) -> Result<(), String> {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(hook.timeout))
        .http_status_as_error(false)
        // Where a POST is sent elsewhere, most servers are asked without what it brings: the report would be nowhere.
        .max_redirects(0)
        .tls_config(tls)
        .user_agent(concat!("capstan/", env!("CARGO_PKG_VERSION")))
        .build();
    let mut request = Agent::new_with_config(config).post(&hook.url);
    request = request.header("Content-Type", "application/json");
    for (name, value) in &hook.headers {
        request = request.header(name, value);
    }
    let mut answer = request.send(json).map_err(|e| e.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let elsewhere = answer.headers().get("Location").and_then(|at| at.to_str().ok());
    if let Some(at) = elsewhere.filter(|_| answer.status().is_redirection()) {
        return Err(format!("{}: it is at {at} now; write that address", answer.status()));
    }
    let text =
        answer.body_mut().with_config().limit(ANSWER_SHOWN).lossy_utf8(true).read_to_string();
    let text = text.unwrap_or_default();
    Err(format!("{} {}", answer.status(), text.trim()).trim_end().to_owned())
}
