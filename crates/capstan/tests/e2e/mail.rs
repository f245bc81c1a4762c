//! Reports by mail: through a mail server that others wrote (aiosmtpd), with STARTTLS and a login, and through sendmail.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::{Lab, finish, noise, skip, wait_for};

/// Takes mail with STARTTLS from who knows the password, and lays each letter into a file. Says its port.
const SERVER: &str = r#"
import email, email.policy, itertools, ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
number = itertools.count()
class Keep:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"
    async def handle_DATA(self, server, session, envelope):
        letter = email.message_from_bytes(envelope.content, policy=email.policy.default)
        with open(f"letter-{next(number)}", "w") as file:
            print("tls" if session.ssl else "plain", ",".join(envelope.rcpt_tos), file=file)
            print(letter["subject"], letter["from"], sep="\n", file=file)
            print(letter.get_content(), file=file)
        return "250 OK"
class Tls(Controller):
    def factory(self):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain("cert.pem", "key.pem")
        def check(server, session, envelope, mechanism, data):
            good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"backup", b"se cret")
            return AuthResult(success=good)
        return SMTP(self.handler, tls_context=context, require_starttls=True, authenticator=check,
                    auth_required=True)
server = Tls(Keep(), hostname="127.0.0.1", port=int(sys.argv[1]), ready_timeout=60)
server.start()
print("ready", flush=True)
time.sleep(3600)
"#;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python() -> Option<PathBuf> {
    let venv = std::env::var_os("CAPSTAN_VENV").map(PathBuf::from);
    let python = venv?.join("bin/python3");
    let has_it = finish(Command::new(&python).args(["-c", "import aiosmtpd"])).code == 0;
    has_it.then_some(python)
}

/// The server, and its port.
fn server(lab: &Lab, python: &PathBuf) -> (Server, u16) {
    lab.sh(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
         -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE 2>&1",
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let script = lab.file("server.py", SERVER);
    let mut command = lab.program(python);
    let mut child =
        command.arg(script).arg(port.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    (Server(child), port)
}

fn run(lab: &Lab, text: &str) -> crate::support::Run {
    let text = text.replace("LAB", lab.path("").to_str().unwrap().trim_end_matches('/'));
    let spec = lab.file("desk.toml", text);
    lab.run(["run", spec.to_str().unwrap()])
}

const OBJECTS: &str = "device = \"LAB/m\"\n[[object]]\nname = \"tree\"\npaths = [\"LAB/tree\"]\n\
                       [[object]]\nname = \"gone\"\npaths = [\"LAB/gone\"]\n";

#[test]
fn what_went_wrong_is_sent_with_starttls_to_who_is_to_be_told() {
    let Some(python) = python() else { return skip("no aiosmtpd: make setup") };
    let lab = Lab::new();
    lab.file("tree/x", noise(1, 10_000));
    let (_server, port) = server(&lab, &python);
    lab.file("password", "se cret\n");
    lab.sh("chmod 600 password");
    let notify = format!(
        "{OBJECTS}[notify]\nmail = [\"ann@example.org\", \"bob@example.org\"]\nsmtp = \"localhost:{port}\"\n\
         user = \"backup\"\npassword-file = \"LAB/password\"\nca = \"LAB/cert.pem\"\ntimeout = \"30s\"\n"
    );
    let failed = run(&lab, &notify);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let letter = lab.sh("cat letter-0");
    for words in [
        "tls ann@example.org,bob@example.org",
        ": gone failed\n",
        "What went wrong, and what to do",
        "/gone",
        "no such file or directory",
        "To do: check the path",
        "tree: completed",
        "last complete version",
    ] {
        assert!(letter.contains(words), "{words}: {letter}");
    }
    // One whom the server refuses keeps it from nobody else.
    let refused = notify.replace("[\"ann@", "[\"nobody@example.org\", \"ann@");
    let failed = run(&lab, &refused);
    assert!(failed.stderr.contains("nobody@example.org: "), "{}", failed.stderr);
    assert!(!failed.stderr.contains("ann@example.org: "), "{}", failed.stderr);
    let letters = lab.sh("head -qn 1 letter-1 letter-2");
    assert_eq!(letters, "tls ann@example.org\ntls bob@example.org\n");
    // All is well: nobody is told, but who asked to be.
    lab.file("gone/now", "there");
    let well = run(&lab, &notify);
    assert_eq!((well.code, lab.succeeds("test -e letter-3")), (0, false), "{}", well.stderr);
    assert_eq!(run(&lab, &format!("{notify}when = \"always\"\n")).code, 0);
    assert!(lab.sh("cat letter-3").contains("tree, gone completed"));
    // A wrong password, a file that others read, and a certificate that nobody trusts: an error of the run, and on record.
    let always = format!("{notify}when = \"always\"\n");
    for (spoil, words) in [
        ("chmod 644 password", "others may read the password"),
        ("chmod 600 password; echo wrong >password", "did not take it"),
        ("echo 'se cret' >password; sed -i /^ca/d desk.toml", "did not take it"),
    ] {
        lab.sh(spoil);
        let text = if spoil.contains("sed") {
            always.replace("ca = \"LAB/cert.pem\"\n", "")
        } else {
            always.clone()
        };
        let untold = run(&lab, &text);
        assert_eq!(untold.code, 3, "{words}: {}", untold.stderr);
        assert!(untold.stderr.contains(words), "{words}: {}", untold.stderr);
        assert!(!untold.stderr.contains("wrong\n"), "{}", untold.stderr);
        let status = lab.run(["status"]);
        assert!(status.code == 5 && status.stdout.contains(words), "{words}: {}", status.stdout);
    }
    assert_eq!(run(&lab, &always).code, 0);
    lab.run(["status"]).ok();
}

#[test]
fn sendmail_sends_and_a_run_that_was_killed_is_told_of() {
    let lab = Lab::new();
    lab.file("tree/x", noise(1, 10_000));
    lab.file("sendmail", "#!/bin/sh\necho \"$@\" >>$(dirname $0)/sent\ncat >>$(dirname $0)/sent\n");
    lab.sh("chmod 755 sendmail");
    let notify = format!("{OBJECTS}[notify]\nmail = \"root\"\nsendmail = \"LAB/sendmail\"\n");
    assert_eq!(run(&lab, &notify).code, 1);
    let sent = lab.sh("cat sent; rm sent");
    assert!(sent.contains("Subject: Capstan on ") && sent.contains("root@localhost"), "{sent}");
    let told = |result: &str, status: &str| {
        let mut command = lab.command();
        command.args(["run", "--failed"]).arg(lab.path("desk.toml"));
        command.env("MONITOR_SERVICE_RESULT", result).env("MONITOR_EXIT_STATUS", status);
        finish(&mut command).ok();
        let sent = lab.sh("if [ -e sent ]; then cat sent; rm sent; fi");
        sent.replace("=\n", "").replace("=\r\n", "")
    };
    // It has told itself.
    assert_eq!(told("exit-code", "1"), "");
    let sent = told("oom-kill", "9");
    assert!(sent.contains("oom-kill") && sent.contains("journalctl -u capstan@desk"), "{sent}");
    let status = lab.run(["status"]).stdout;
    assert!(status.contains("oom-kill") && status.contains("0 min ago"), "{status}");
    // Its mistakes do not keep the rest of it from saying who is told.
    lab.run([
        "run",
        lab.file(
            "desk.toml",
            format!("oops = 1\n{}", notify.replace("LAB", lab.path("").to_str().unwrap())),
        )
        .to_str()
        .unwrap(),
    ]);
    // Long lines are broken for the way.
    let sent = lab.sh("cat sent").replace("=\n", "").replace("=\r\n", "");
    assert!(sent.contains("1 mistake"), "{sent}");
    let status = lab.run(["status", "--json"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert!(status["runs"][0]["reason"].as_str().unwrap().contains("1 mistake"), "{status:#}");
    assert_eq!(status["runs"][0]["exit_code"], 2);
}

/// Before version 251 systemd does not say how a unit ended.
#[test]
fn a_run_that_told_of_itself_is_not_told_of_again() {
    let lab = Lab::new();
    lab.file("sendmail", "#!/bin/sh\ncat >>$(dirname $0)/sent\n");
    lab.sh("chmod 755 sendmail");
    let notify = format!("{OBJECTS}[notify]\nmail = \"root\"\nsendmail = \"LAB/sendmail\"\n");
    let told = || {
        let mut command = lab.command();
        command.args(["run", "--failed"]).arg(lab.path("desk.toml"));
        command.env_remove("MONITOR_SERVICE_RESULT").env_remove("MONITOR_EXIT_STATUS");
        finish(&mut command).ok();
        lab.sh("if [ -e sent ]; then cat sent; rm sent; fi")
    };
    // A command that fails, a path that is gone, a mistake, and a file that is gone: the reason stays.
    let pre = format!("{notify}[commands]\npre = \"exit 9\"\n");
    for (text, code, words) in [
        (&pre, 1, "exit 9"),
        (&notify, 1, "no such"),
        (&format!("oops = 1\n{notify}"), 2, "1 mistake"),
    ] {
        assert_eq!(run(&lab, text).code, code, "{words}");
        assert!(lab.sh("cat sent; rm sent").contains("Subject: "), "{words}");
        assert_eq!(told(), "", "{words}");
        let status = lab.run(["status"]).stdout;
        assert!(status.contains(words) && !status.contains("before it could"), "{words}: {status}");
    }
    // One that is killed in its backup says nothing, though the one before did.
    lab.file("tree/x", "x");
    let long = "device = \"LAB/m\"\n[[object]]\nname = \"z\"\nstdin-name = \"z\"\nfrom-command = \"touch LAB/begun; exec sleep 60\"\n";
    let text = format!("{long}[notify]\nmail = \"root\"\nsendmail = \"LAB/sendmail\"\n");
    let text = text.replace("LAB", lab.path("").to_str().unwrap().trim_end_matches('/'));
    let spec = lab.file("desk.toml", text);
    let mut child = lab.command().arg("run").arg(spec).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the command begins", || lab.path("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let sent = told();
    assert!(sent.contains("before it could say how"), "{sent}");
    let status = lab.run(["status"]).stdout;
    assert!(status.contains("before it could say how: its unit failed"), "{status}");
    // Once.
    assert_eq!(told(), "");
}

/// Takes mail from anybody, asks for a login in the clear, and keeps every line that it is sent.
const PLAIN_SERVER: &str = r#"
import sys
from socketserver import StreamRequestHandler, ThreadingTCPServer
class Session(StreamRequestHandler):
    def handle(self):
        say = lambda text: self.wfile.write(text + b"\r\n")
        say(b"220 here")
        data = False
        for line in self.rfile:
            with open("lines", "ab") as file:
                file.write(line)
            word = line[:4].upper()
            if data:
                data = line != b".\r\n"
                data or say(b"250 OK")
            elif word == b"EHLO":
                say(b"250-here\r\n250 AUTH PLAIN LOGIN")
            elif word == b"DATA":
                data = True
                say(b"354 go on")
            elif word == b"AUTH":
                say(b"235 OK")
            else:
                say(b"250 OK")
server = ThreadingTCPServer(("127.0.0.1", 0), Session)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// The letter that tells of a specification with a mistake goes by what of it can be read: not with the password.
#[test]
fn no_password_goes_in_the_clear_with_the_letter_that_says_so() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    lab.file("password", "se cret\n");
    lab.sh("chmod 600 password");
    let script = lab.file("server.py", PLAIN_SERVER);
    let mut command = lab.program(PathBuf::from("python3"));
    let mut child = command.arg(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let _server = Server(child);
    let refused = run(
        &lab,
        &format!(
            "{OBJECTS}[notify]\nmail = \"ann@example.org\"\nsmtp = \"localhost:{}\"\ntls = \"off\"\n\
             user = \"backup\"\npassword-file = \"LAB/password\"\n",
            port.trim()
        ),
    );
    refused.refused(&["not sent in the clear"]);
    let lines = lab.sh("cat lines");
    assert!(lines.contains("RCPT TO:<ann@example.org>"), "{lines}");
    assert!(!lines.to_uppercase().contains("AUTH"), "{lines}");
}

/// It is ended, with what it started; and what a program says that refuses a letter is told.
#[test]
fn a_sendmail_that_hangs_is_waited_for_as_long_as_the_timeout() {
    let lab = Lab::new();
    lab.file("tree/x", noise(1, 10_000));
    let notify = format!(
        "{OBJECTS}[notify]\nmail = \"root\"\nsendmail = \"LAB/sendmail\"\ntimeout = \"1s\"\n"
    );
    for (program, words) in [
        ("cd $(dirname $0); echo $$ >pid; sleep 100; touch late", "took longer than 1 s"),
        ("echo 'no such queue' >&2; exit 75", "no such queue"),
        ("exit 75", "exit status: 75"),
    ] {
        lab.file("sendmail", format!("#!/bin/sh\n{program}\n"));
        lab.sh("chmod 755 sendmail");
        let said = run(&lab, &notify).stderr;
        assert!(said.contains(words), "{program}: {said}");
    }
    let pid = lab.sh("cat pid");
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists(), "it goes on");
    assert!(!lab.path("late").exists(), "it was waited for");
}

/// The letter after a command that failed before the backups is as the others: names, what to do, and how old what there is is.
#[test]
fn a_command_that_failed_before_the_backups_is_told_for_each_object() {
    let lab = Lab::new();
    lab.file("tree/x", noise(1, 10_000));
    lab.file("gone/x", noise(2, 10_000));
    lab.file("sendmail", "#!/bin/sh\ncat >$(dirname $0)/letter\n");
    lab.sh("chmod 755 sendmail");
    let notify = format!("{OBJECTS}[notify]\nmail = \"root\"\nsendmail = \"LAB/sendmail\"\n");
    assert_eq!(run(&lab, &notify).code, 0);
    let failed = run(&lab, &format!("{notify}[commands]\npre = [\"exit 7\"]\n"));
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    // Its lines may be folded.
    let letter = lab.sh("sed -e 's/=$//' letter | tr -d '\\r\\n'");
    for words in [
        "tree failed, gone failed",
        "- tree: failed",
        "nothing was backed up",
        "To do: mend what the command says",
        "capstan run",
        "  gone: failed",
        "last complete version",
    ] {
        assert!(letter.contains(words), "{words}: {letter}");
    }
}
