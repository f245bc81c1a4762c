//! `[notify]`: who gets the report of a run by mail, and by which way.

use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;

use super::options;
use super::table::{Mistakes, Table};

/// What sends mail on this machine, if the specification does not say.
const SENDMAIL: &str = "/usr/sbin/sendmail";
/// Where mail is handed in.
const PORT_STARTTLS: u16 = 587;
const PORT_TLS: u16 = 465;
const PORT_PLAIN: u16 = 25;

/// Who is told by mail.
#[derive(Debug, Clone)]
pub struct Notify {
    /// To whom; at least one.
    pub mail: Vec<Mailbox>,
    /// From whom; else `capstan` on this host.
    pub from: Option<Mailbox>,
    /// Also of runs in which all went well.
    pub always: bool,
    /// How it is sent.
    pub way: Way,
    /// How long one answer of the server is waited for.
    pub timeout: Duration,
}

/// How mail is sent.
#[derive(Debug, Clone)]
pub enum Way {
    /// By a program of this machine, as sendmail(8).
    Sendmail(PathBuf),
    /// To a server.
    Smtp(Smtp),
}

/// A server that takes mail.
#[derive(Debug, Clone)]
pub struct Smtp {
    /// Its name, which its certificate has.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: Tls,
    /// Who logs in, and the file with the password.
    pub login: Option<(String, PathBuf)>,
    /// A file with a further certificate, as PEM, that is trusted.
    pub ca: Option<PathBuf>,
}

/// How the connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// From the command STARTTLS on; a server that does not know it gets nothing.
    Upgraded,
    /// From its begin.
    Always,
    /// Not at all.
    Off,
}

/// Reads the table.
pub(super) fn read(mut t: Table<'_>, m: &mut Mistakes<'_>) -> Option<Notify> {
    const KNOWN: [&str; 10] = [
        "mail",
        "from",
        "when",
        "sendmail",
        "smtp",
        "tls",
        "user",
        "password-file",
        "ca",
        "timeout",
    ];
    let begin = t.begin;
    let texts = t.texts("mail", m);
    if texts.is_empty() {
        m.at(
            begin,
            "[notify] does not say who is told; write mail = \"root@example.org\"".to_owned(),
        );
    }
    let mail: Vec<Mailbox> = texts.iter().filter_map(|text| address(text, begin, m)).collect();
    let from = t.text("from", m).and_then(|text| address(&text, begin, m));
    let always = match t.scalar("when", m) {
        None => false,
        Some((_, when)) if when == "problems" => false,
        Some((_, when)) if when == "always" => true,
        Some((at, when)) => {
            m.at(at, format!("'{when}' is no time; write \"problems\" or \"always\""));
            false
        }
    };
    let timeout = match t.scalar("timeout", m) {
        None => Duration::from_secs(60),
        Some((at, text)) => crate::args::parse_age(&text).unwrap_or_else(|why| {
            m.at(at, format!("'{text}': {why}"));
            Duration::ZERO
        }),
    };
    let sendmail = path("sendmail", &mut t, m);
    let smtp = smtp(&mut t, m);
    t.end("a key of [notify]", &KNOWN, m);
    let way = match (sendmail, smtp) {
        (Some((at, _)), Some(_)) => {
            m.at(at, "mail goes by sendmail or by smtp; leave one of them out".to_owned());
            return None;
        }
        (None, Some(smtp)) => Way::Smtp(smtp),
        (sendmail, None) => {
            Way::Sendmail(sendmail.map_or_else(|| SENDMAIL.into(), |(_, path)| path))
        }
    };
    (!mail.is_empty()).then_some(Notify { mail, from, always, way, timeout })
}

/// A path from the root, as all of a specification are.
fn path(key: &str, t: &mut Table<'_>, m: &mut Mistakes<'_>) -> Option<(usize, PathBuf)> {
    let (at, path) = t.scalar(key, m)?;
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        m.at(at, options::relative(&path.display().to_string()));
    }
    Some((at, path))
}

fn smtp(t: &mut Table<'_>, m: &mut Mistakes<'_>) -> Option<Smtp> {
    let server = t.scalar("smtp", m);
    let tls = match t.scalar("tls", m) {
        None => Tls::Upgraded,
        Some((_, how)) if how == "starttls" => Tls::Upgraded,
        Some((_, how)) if how == "always" => Tls::Always,
        Some((_, how)) if how == "off" => Tls::Off,
        Some((at, how)) => {
            let text = format!("'{how}' is no way; write \"starttls\", \"always\" or \"off\"");
            m.at(at, text);
            Tls::Upgraded
        }
    };
    let (user, file) = (t.scalar("user", m), path("password-file", t, m));
    let ca = path("ca", t, m).map(|(_, path)| path);
    let login = match (user, file) {
        (Some((_, user)), Some((_, file))) => Some((user, file)),
        (None, None) => None,
        (Some((at, _)), None) | (None, Some((at, _))) => {
            m.at(at, "user and password-file belong together; write both".to_owned());
            None
        }
    };
    let (at, server) = server?;
    let in_the_clear = login.is_some() && tls == Tls::Off;
    if in_the_clear {
        m.at(at, "a password is not sent in the clear; leave tls = \"off\" out".to_owned());
    }
    // Nor in the letter that tells of this mistake.
    let login = login.filter(|_| !in_the_clear);
    let usual = match tls {
        Tls::Upgraded => PORT_STARTTLS,
        Tls::Always => PORT_TLS,
        Tls::Off => PORT_PLAIN,
    };
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (server.as_str(), Some(usual)),
    };
    let (false, Some(port)) = (host.is_empty(), port) else {
        m.at(at, format!("'{server}' is no mail server; write its name, and :PORT if not {usual}"));
        return None;
    };
    Some(Smtp { host: host.to_owned(), port, tls, login, ca })
}

fn address(text: &str, at: usize, m: &mut Mistakes<'_>) -> Option<Mailbox> {
    // A name of this machine, as `root`, is at this machine.
    let whole = match text.contains('@') {
        true => text.to_owned(),
        false => format!("{text}@localhost"),
    };
    let parsed = whole.parse();
    if parsed.is_err() {
        m.at(at, format!("'{text}' is no mail address; write one as root@example.org"));
    }
    parsed.ok()
}
