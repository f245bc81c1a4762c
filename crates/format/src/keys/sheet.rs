//! The recovery sheet: a page with the recovery code, to print and lock away.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::recovery::RecoveryCode;
use super::ring::KeyRing;
use super::secret::Secret;
use super::{KeyError, Scope};

/// What a recovery sheet says beside the code.
#[derive(Debug, Clone, Copy)]
pub struct SheetInfo<'a> {
    /// Of which host or cell the ring is.
    pub name: &'a str,
    /// The day it is printed, as people write it.
    pub date: &'a str,
    /// What to do to restore with the code, step by step: commands of the program that prints the sheet.
    pub steps: &'a [&'a str],
}

/// A page to print and lock away; an error if the code does not open the ring.
pub fn recovery_sheet(
    ring: &KeyRing,
    code: &RecoveryCode,
    info: &SheetInfo,
) -> Result<Zeroizing<String>, KeyError> {
    // A sheet that opens nothing is found out when it is too late: so it is tried here.
    let active = ring.active()?.id();
    let open = ring.unlock(&Secret::RecoveryCode(code))?;
    if open.scope(&active) != Some(Scope::All) {
        return Err(KeyError::WrongRecoveryCode);
    }
    let clean = |s: &str| s.chars().filter(|c| !c.is_control()).collect::<String>();
    // Ample, so that writing does not leave copies of the code behind.
    let steps: usize = info.steps.iter().map(|s| s.len() + 16).sum();
    let mut page = Zeroizing::new(String::with_capacity(
        4096 + info.name.len() + info.date.len() + steps + ring.list().len() * 64,
    ));
    let pairs = ring.list();
    let pairs = pairs.iter().filter(|p| open.scope(&p.id) == Some(Scope::All));
    page.push_str("CAPSTAN RECOVERY SHEET\n======================\n\n");
    let _ = writeln!(page, "Key ring of: {}", clean(info.name));
    let _ = writeln!(page, "Printed:     {}", clean(info.date));
    for pair in pairs {
        let mark = if pair.id == active { " (active)" } else { "" };
        let _ = writeln!(page, "Opens key:   {}{mark}", pair.id);
    }
    page.push_str(
        "\nWho has this sheet and a backup medium that was written since it was printed can read everything\n\
         on it, and with that on older media of the same keys. Keep it locked away, in another building\n\
         than the machine, and not with the media. Without it, and without passphrase and key files,\n\
         encrypted backups cannot be read by anybody.\n\nRecovery code:\n\n",
    );
    for line in code.to_text().lines() {
        let _ = writeln!(page, "    {line}");
    }
    page.push_str(
        "\nTyping it: capitals or not, with or without spaces, dashes and line numbers. There is no letter\n\
         O (it is zero), I or L (they are one) or U (it is V). Each line has a checksum: a mistake is told\n\
         by line.\n\nTo restore with it:\n\n",
    );
    for (i, step) in info.steps.iter().enumerate() {
        let _ = writeln!(page, "    {}. {}", i + 1, clean(step));
    }
    page.push_str(
        "\nA medium carries what the code opens from its first encrypted backup after the printing on. The\n\
         machine that wrote it is not needed. An older medium opens when a newer one is imported first.\n\
         The format is specified in docs/keys.md of Capstan's source.\n",
    );
    Ok(page)
}
