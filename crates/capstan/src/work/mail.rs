//! Sending a letter: by a mail server, or by the machine's own sendmail.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use capstan_disk_agent::linux::command::wait_for_command_at_most;
use capstan_engine::threads;
use lettre::address::Envelope;
use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls as Encrypted, TlsParameters};
use lettre::{Message, SmtpTransport, Transport as _};
use zeroize::Zeroizing;

use crate::exit::{FAILED, Failure, one_line};
use crate::work::spec::{Notify, Smtp, Tls, Way};

/// Most bytes of a file with a password or a certificate.
const FILE_MAX: u64 = 1 << 20;
/// Most bytes of what a program says of a letter that it does not take.
const WORDS_MAX: u64 = 4096;
/// How long its last words are waited for.
const WORDS_WAIT: Duration = Duration::from_secs(1);

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Letter {
    /// One line.
    pub subject: String,
    /// Text, in lines.
    pub body: String,
}

/// Sends it to all that are to be told; why not, and what to do.
pub fn send(notify: &Notify, letter: &Letter) -> Result<(), String> {
    let from = match &notify.from {
        Some(from) => from.clone(),
        None => from_here()?,
    };
    let mut message = Message::builder().from(from).subject(&letter.subject);
    for to in &notify.mail {
        message = message.to(to.clone());
    }
    let message = message
        .user_agent(concat!("capstan/", env!("CARGO_PKG_VERSION")).to_owned())
        .header(ContentType::TEXT_PLAIN)
        .body(letter.body.clone())
        .map_err(|e| format!("it cannot be written: {e}"))?;
    match &notify.way {
        Way::Sendmail(program) => by_program(program, &message, notify.timeout),
        Way::Smtp(smtp) => {
            let transport = transport(smtp, notify)?;
            let refused =
                |why: String| format!("{}:{} did not take it: {why}", smtp.host, smtp.port);
            match transport.send(&message) {
                Ok(_) => Ok(()),
                // One that is refused keeps the letter from nobody else.
                Err(e) if e.is_permanent() && notify.mail.len() > 1 => {
                    let each = |to: &Mailbox| to_one(&transport, &message, to);
                    let failed: Vec<_> =
                        notify.mail.iter().filter_map(|to| each(to).err()).collect();
                    if failed.is_empty() { Ok(()) } else { Err(refused(failed.join("; "))) }
                }
                Err(e) => Err(refused(Failure::new(FAILED, &e).error)),
            }
        }
    }
}

/// Sends it to one of those whom it names. An error begins with who that is.
fn to_one(transport: &SmtpTransport, message: &Message, to: &Mailbox) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", to.email);
    let from = message.envelope().from().cloned();
    let envelope =
        Envelope::new(from, vec![to.email.clone()]).map_err(|e| failed(e.to_string()))?;
    let sent = transport.send_raw(&envelope, &message.formatted());
    sent.map(drop).map_err(|e| failed(Failure::new(FAILED, &e).error))
}

/// By sendmail or what stands for it. One that takes longer than the timeout is ended: nobody else would.
fn by_program(program: &Path, message: &Message, timeout: Duration) -> Result<(), String> {
    given_to(program, message, timeout).map_err(|why| {
        let hint = match program.exists() {
            true => "look into its log",
            false => "install a mail server that has it, or name one with smtp",
        };
        format!("{} did not take it: {why}; {hint}", program.display())
    })
}

fn given_to(program: &Path, message: &Message, timeout: Duration) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("-i");
    if let Some(from) = message.envelope().from() {
        command.arg("-f").arg(from);
    }
    command.arg("--").args(message.envelope().to());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let plain = |e: std::io::Error| one_line(&e.to_string()).to_string();
    let mut child = command.spawn().map_err(plain)?;
    // It may read slowly, or not at all, and write more than a pipe holds: each has a thread of its own, which ends with it.
    let (done, written) = mpsc::channel();
    let (said, heard) = mpsc::channel();
    let text = message.formatted();
    if let (Some(mut stdin), Some(stderr)) = (child.stdin.take(), child.stderr.take()) {
        let write = move || drop(done.send(stdin.write_all(&text)));
        let read = move || {
            let mut words = Vec::new();
            // What came until then is what is told.
            let _ = stderr.take(WORDS_MAX).read_to_end(&mut words);
            let _ = said.send(words);
        };
        let started = threads::start("letter", write).and(threads::start("words", read));
        started.map_err(|e| e.to_string())?;
    }
    let ended = wait_for_command_at_most(&mut child, timeout).map_err(plain)?;
    let Some(status) = ended else {
        return Err(format!("it took longer than {} s", timeout.as_secs_f64()));
    };
    if !status.success() {
        let words = heard.recv_timeout(WORDS_WAIT).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        return Err(if words.is_empty() {
            status.to_string()
        } else {
            one_line(&words).to_string()
        });
    }
    // One that did not read all of it has not sent it.
    match written.recv_timeout(WORDS_WAIT) {
        Ok(Err(e)) => Err(plain(e)),
        _ => Ok(()),
    }
}

fn transport(smtp: &Smtp, notify: &Notify) -> Result<SmtpTransport, String> {
    let parameters = || {
        let mut tls = TlsParameters::builder(smtp.host.clone());
        if let Some(ca) = &smtp.ca {
            let pem = read(ca, "the certificate")?;
            let trusted = Certificate::from_pem(&pem)
                .map_err(|_| format!("{} has no certificate as PEM", ca.display()))?;
            tls = tls.add_root_certificate(trusted);
        }
        tls.build_rustls().map_err(|e| format!("TLS cannot be set up: {e}"))
    };
    let encrypted = match smtp.tls {
        Tls::Upgraded => Encrypted::Required(parameters()?),
        Tls::Always => Encrypted::Wrapper(parameters()?),
        Tls::Off => Encrypted::None,
    };
    // Nothing is sent before the connection is as it is asked for.
    let mut server = SmtpTransport::builder_dangerous(&smtp.host)
        .port(smtp.port)
        .tls(encrypted)
        .timeout(Some(notify.timeout));
    if let Some((user, file)) = &smtp.login {
        let secret = password(file)?;
        server = server.credentials(Credentials::new(user.clone(), secret.to_string()));
    }
    Ok(server.build())
}

/// The password in a file that nobody else may read.
fn password(file: &Path) -> Result<Zeroizing<String>, String> {
    let mode = fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        let file = file.display();
        return Err(format!("others may read the password in {file}; `chmod 600 {file}`"));
    }
    let bytes = Zeroizing::new(read(file, "the password")?);
    let text = std::str::from_utf8(&bytes).map_err(|_| format!("{} is no text", file.display()))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    let refused = |why: String| format!("cannot read {what} in {}: {why}", file.display());
    let size = fs::metadata(file).map_err(|e| refused(e.to_string()))?.len();
    if size > FILE_MAX {
        return Err(refused("it is longer than 1 MiB".to_owned()));
    }
    fs::read(file).map_err(|e| refused(e.to_string()))
}

/// `capstan@ann`, where the host's name may stand in an address.
fn from_here() -> Result<Mailbox, String> {
    let host = capstan_cell::system_host();
    let from = |host: &str| format!("Capstan <capstan@{host}>").parse::<Mailbox>();
    from(&host).or_else(|_| from("localhost")).map_err(|e| e.to_string())
}
