//! Tapes that a run asks for: people are told by mail, and the webhook is, as nobody sits before it.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::args::Told;
use crate::exit::one_line;
use crate::work::mail::{self, Letter};
use crate::work::spec::Spec;
use crate::work::webhook;

/// Why somebody could not be told of a request.
pub type Untold = Arc<Mutex<Vec<String>>>;

/// Who is told what tapes are wanted: those who are told how the run ended. What fails of that is put into `untold`.
pub fn told(spec: &Spec, host: &str, untold: &Untold) -> Option<Told> {
    let (hook, notify) = (spec.webhook.clone(), spec.notify.clone());
    if hook.is_none() && notify.is_none() {
        return None;
    }
    let (place, host) = (spec.path.display().to_string(), host.to_owned());
    let untold = untold.clone();
    Some(Told(Arc::new(move |wanted: &str| {
        let failed = |why: String| untold.lock().push(why);
        if let Some(hook) = &hook {
            let request = json!({
                "spec": place, "host": host, "status": "waiting", "wanted": wanted,
                "time": format!("{:.3}", Timestamp::now()),
            });
            if let Err(why) = webhook::post(hook, &request.to_string()) {
                failed(format!(
                    "the webhook {} was not told of a tape that is wanted: {why}",
                    hook.url
                ));
            }
        }
        if let Some(notify) = &notify
            && let Err(why) = mail::send(notify, &letter(&place, &host, wanted))
        {
            failed(format!("that a tape is wanted was not sent by mail: {why}"));
        }
    })))
}

fn letter(spec: &str, host: &str, wanted: &str) -> Letter {
    let wanted = one_line(wanted);
    Letter {
        subject: one_line(&format!("Capstan on {host}: a tape is wanted")),
        body: format!(
            "The run of {spec} on {host} waits for a tape.\n\n{wanted}\n\nIt goes on by itself when the tape is in. `capstan status` on \
             {host} shows what is waited for.\n"
        ),
    }
}
