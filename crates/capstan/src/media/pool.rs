//! `capstan pool`: pools as lines, as pages, as JSON.

use capstan_cell::PoolInfo;
use capstan_idb::{Pool, RotationSet};
use serde_json::{Value, json};

use crate::args::{Global, PolicyArgs, PoolCommand};
use crate::exit::{COMPLETED, Failure};
use crate::media;
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::{Align, fields, table};

/// Runs `pool`.
pub fn run(global: &Global, command: &PoolCommand) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let mut out = Output::new();
    match command {
        PoolCommand::Create { pool, policy, json } => {
            let mut new = PoolInfo::default_of(pool);
            apply(&mut new, policy);
            cell.pool_create(&new)?;
            show(&mut out, &cell.pool_show(pool)?, *json)?;
        }
        PoolCommand::Set { pool, policy, json } => {
            cell.pool_set(pool, &|pool| apply(pool, policy))?;
            show(&mut out, &cell.pool_show(pool)?, *json)?;
        }
        PoolCommand::List { json } => {
            let list = cell.pool_list()?;
            if *json {
                JsonList::all(&mut out, "pools", &list, json_of)?;
            } else {
                out.text(&lines(&list))?;
            }
        }
        PoolCommand::Show { pool, json } => {
            show(&mut out, &cell.pool_show(pool)?, *json)?;
        }
        PoolCommand::Delete { pool, json } => {
            cell.pool_delete(pool)?;
            match json {
                true => out.json(&json!({ "name": pool, "deleted": true }))?,
                false => out.text(&format!("pool '{pool}' is deleted\n"))?,
            }
        }
    }
    out.finish().map(|()| COMPLETED)
}

fn show(out: &mut Output, pool: &PoolInfo, as_json: bool) -> Result<(), Failure> {
    match as_json {
        true => out.json(&json_of(pool)),
        false => out.text(&page(pool)),
    }
}

/// Makes what is named of a policy the pool's.
fn apply(pool: &mut Pool, policy: &PolicyArgs) {
    pool.allocation = policy.allocation.unwrap_or(pool.allocation);
    pool.appendable = policy.appendable || pool.appendable && !policy.not_appendable;
    if policy.free_pool.is_some() || policy.no_free_pool {
        pool.free_pool = policy.free_pool.clone();
    }
    pool.scratch = policy.scratch || pool.scratch && !policy.no_scratch;
    if !policy.library.is_empty() || policy.no_scratch {
        pool.libraries = policy.library.iter().map(|name| name.resolved().to_string()).collect();
    }
    if policy.label.is_some() || policy.no_label {
        pool.label_rule = policy.label.as_ref().map(ToString::to_string);
    }
    if policy.vault.is_some() || policy.no_vault {
        pool.vault = policy.vault.clone();
    }
    if policy.no_rotation {
        pool.rotation = [0; 3];
    }
    pool.rotation = policy.rotation.map_or(pool.rotation, |rotation| rotation.0);
}

fn lines(list: &[PoolInfo]) -> String {
    let head = [
        ("Pool", Align::Left),
        ("Media", Align::Right),
        ("Usable", Align::Right),
        ("Size", Align::Right),
        ("Policy", Align::Left),
    ];
    let row = |p: &PoolInfo| {
        [
            p.pool.name.clone(),
            grouped(p.media.len() as u64),
            grouped(p.usable()),
            bytes_text(p.media.iter().map(|m| m.holdings.bytes).sum()),
            p.policy(),
        ]
    };
    table(head, list.iter().map(row).collect())
}

fn page(pool: &PoolInfo) -> String {
    let mut text = fields(&[
        ("Pool", pool.pool.name.clone()),
        ("Policy", pool.policy()),
        ("Media", grouped(pool.media.len() as u64)),
        ("Usable", grouped(pool.usable())),
        ("Lacks", pool.lacks.clone().unwrap_or_default()),
    ]);
    if !pool.media.is_empty() {
        text.push('\n');
        text.push_str(&media::lines(&pool.media));
    }
    text
}

fn json_of(pool: &PoolInfo) -> Value {
    let sets = RotationSet::ALL.into_iter().zip(pool.pool.rotation);
    let rotation: serde_json::Map<String, Value> =
        sets.map(|(set, n)| (set.to_string(), n.into())).collect();
    json!({
        "name": pool.pool.name,
        "allocation": pool.pool.allocation.to_string(),
        "appendable": pool.pool.appendable,
        "free_pool": pool.pool.free_pool,
        "rotation": rotation,
        "scratch": pool.pool.scratch,
        "libraries": pool.pool.libraries,
        "label_rule": pool.pool.label_rule,
        "vault": pool.pool.vault,
        "usable": pool.usable(),
        "lacks": pool.lacks,
        "media": pool.media.iter().map(media::json_of).collect::<Vec<_>>(),
    })
}
