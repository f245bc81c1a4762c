//! Names of iSCSI devices: `iscsi://[user[%secret]@]host[:port]/target-iqn/lun`.

use std::fmt;

use zeroize::Zeroizing;

use crate::AddressError;
pub use crate::error::SECRET_VARIABLE;

/// The library cuts names off beyond this without a word.
const LONGEST: usize = 255;
const PORT: u16 = 3260;

/// A logical unit of an iSCSI target, and how to get in.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The host, an address of version 6 in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The target's name; empty where the host is asked which it has.
    pub name: String,
    /// The logical unit.
    pub lun: u16,
    /// The CHAP user, where one is needed.
    pub user: Option<String>,
    secret: Option<Zeroizing<String>>,
}

impl Target {
    /// Reads a URL. An error never repeats the secret.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        parse(url).map_err(|why| AddressError::BadUrl { url: without_secret(url), why })
    }

    /// Reads the name of a host whose targets are to be found: `[user[%secret]@]host[:port]`.
    pub fn parse_host(text: &str) -> Result<Self, AddressError> {
        let (login, host) = text.rsplit_once('@').map_or(("", text), |(login, host)| (login, host));
        let sign = if login.is_empty() { "" } else { "@" };
        let bad = |why| AddressError::BadUrl { url: without_secret(text), why };
        if host.contains('/') {
            return Err(bad("a host has no '/'"));
        }
        let any = parse(&format!("iscsi://{login}{sign}{host}/any/0")).map_err(bad)?;
        Ok(Self { name: String::new(), ..any })
    }

    /// A logical unit of a target of the same host, with the same login.
    pub fn unit(&self, name: &str, lun: u16) -> Self {
        Self { name: name.to_owned(), lun, ..self.clone() }
    }

    /// The same with a secret that is kept elsewhere than in the URL.
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.secret = Some(Zeroizing::new(secret.to_owned()));
        self
    }

    /// Host and port as the library wants them.
    pub fn portal(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The CHAP secret.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_ref().map(|secret| secret.as_str())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        write!(f, "iscsi://{user}{}/{}/{}", self.portal(), self.name, self.lun)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse(url: &str) -> Result<Target, &'static str> {
    let rest = url.strip_prefix("iscsi://").ok_or("it does not begin with iscsi://")?;
    // Neither host nor target can have an '@', a secret can.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (user, secret) = match login {
        None => (None, None),
        Some(login) => match login.split_once('%') {
            Some((user, secret)) => (Some(user), Some(secret)),
            None => (Some(login), None),
        },
    };
    let (portal, rest) = rest.split_once('/').ok_or("the target's name is missing")?;
    let (name, lun) = rest.rsplit_once('/').ok_or("the LUN is missing")?;
    let (host, port) = split_portal(portal)?;
    if host.is_empty() {
        return Err("the host is missing");
    }
    if name.is_empty() || name.contains('/') {
        return Err("the target's name is missing or has a '/'");
    }
    if user == Some("") {
        return Err("the user is empty");
    }
    if [Some(name), Some(portal), user, secret]
        .into_iter()
        .flatten()
        .any(|part| part.len() > LONGEST || part.contains('\0'))
    {
        return Err("a part of it is longer than 255 characters");
    }
    Ok(Target {
        host: host.to_owned(),
        port,
        name: name.to_owned(),
        // The form of LUNs that every target understands.
        lun: lun
            .parse()
            .ok()
            .filter(|lun| *lun < 16384)
            .ok_or("the LUN is not a number below 16384")?,
        user: user.map(str::to_owned),
        secret: secret.map(|secret| Zeroizing::new(secret.to_owned())),
    })
}

fn split_portal(portal: &str) -> Result<(&str, u16), &'static str> {
    let host_end = match portal.strip_prefix('[') {
        Some(_) => portal.find(']').ok_or("the address has no closing bracket")? + 1,
        None => portal.find(':').unwrap_or(portal.len()),
    };
    match portal[host_end..].strip_prefix(':') {
        Some(port) => {
            Ok((&portal[..host_end], port.parse().map_err(|_| "the port is not a number")?))
        }
        None if portal.len() == host_end => Ok((portal, PORT)),
        None => Err("there is something between address and port"),
    }
}

/// For messages about URLs that could not be read: everything that may be a secret is left out.
fn without_secret(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    match rest.rsplit_once('@') {
        Some((login, rest)) => {
            let user = login.split(['%', ':']).next().unwrap_or_default();
            format!("{scheme}{user}@{rest}")
        }
        // Perhaps the '@' was forgotten.
        None => match rest.split_once('%') {
            Some((user, _)) => format!("{scheme}{user}%..."),
            None => format!("{scheme}{rest}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts() {
        let target =
            Target::parse("iscsi://backup%s3%c@ret@tape.example:3261/iqn.2026-11.test:lib/3")
                .unwrap();
        assert_eq!((target.portal().as_str(), target.lun), ("tape.example:3261", 3));
        assert_eq!(target.name, "iqn.2026-11.test:lib");
        assert_eq!((target.user.as_deref(), target.secret()), (Some("backup"), Some("s3%c@ret")));
        assert_eq!(target.to_string(), "iscsi://backup@tape.example:3261/iqn.2026-11.test:lib/3");
        assert!(!format!("{target:?}").contains("ret"));
    }

    #[test]
    fn few_parts() {
        let target = Target::parse("iscsi://10.0.0.1/iqn.a:b/0").unwrap();
        assert_eq!((target.portal().as_str(), &target.user), ("10.0.0.1:3260", &None));
        let target = Target::parse("iscsi://[::1]:9/eui.0123/1").unwrap();
        assert_eq!(target.portal(), "[::1]:9");
        let target = Target::parse("iscsi://u@h/t/1").unwrap().with_secret("x");
        assert_eq!(target.secret(), Some("x"));
    }

    #[test]
    fn wrong_ones_say_what_is_wrong_without_the_secret() {
        for (url, why) in [
            ("http://u%hush@h/t/1", "begin with"),
            ("iscsi://u%hush@h", "target's name"),
            ("iscsi://u%hush@h/t", "LUN is missing"),
            ("iscsi://u%hush@h/t/x", "LUN is not"),
            ("iscsi://u%hush@h/t/16384", "LUN is not"),
            ("iscsi://u%hush@h:x/t/1", "port"),
            ("iscsi://u%hush@[::1/t/1", "bracket"),
            ("iscsi://%hush@h/t/1", "user is empty"),
            ("iscsi://u%hush@/t/1", "host"),
            ("iscsi://u%hush-h/t", "LUN is missing"),
            ("u%hush", "begin with"),
        ] {
            let text = Target::parse(url).unwrap_err().to_string();
            assert!(text.contains(why), "{url}: {text}");
            assert!(!text.contains("hush"), "{text}");
        }
        let long = format!("iscsi://u%{}@h/t/1", "x".repeat(256));
        assert!(Target::parse(&long).unwrap_err().to_string().contains("255"));
    }
}
