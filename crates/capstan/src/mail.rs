//! Sending a letter: by a mail server, or by the machine's own sendmail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lettre::address::Envelope;
use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls as Encrypted, TlsParameters};
use lettre::{Message, SendmailTransport, SmtpTransport, Transport as _};
use zeroize::Zeroizing;

use crate::exit::{FAILED, Failure};
use crate::spec::{Notify, Smtp, Tls, Way};

/// Most bytes of a file with a password or a certificate.
const FILE_MAX: u64 = 1 << 20;

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
        Way::Sendmail(program) => by_program(program, &message),
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

fn by_program(program: &Path, message: &Message) -> Result<(), String> {
    SendmailTransport::new_with_command(program).send(message).map_err(|e| {
        let why = Failure::new(FAILED, &e).error;
        let hint = match program.exists() {
            true => "look into its log",
            false => "install a mail server that has it, or name one with smtp",
        };
        format!("{} did not take it: {why}; {hint}", program.display())
    })
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
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let from = |host: &str| format!("Capstan <capstan@{host}>").parse::<Mailbox>();
    from(&host).or_else(|_| from("localhost")).map_err(|e| e.to_string())
}
