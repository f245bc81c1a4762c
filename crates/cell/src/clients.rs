//! Clients of a cell: hosts with a disk agent. The cell's own host is one of them.

use std::sync::Arc;

use capstan_address::HostName;
use capstan_format::id::ObjectId;
use capstan_port::disk::DiskAgent;

use crate::Cell;
use crate::error::{Result, SessionRefusal};

/// A host whose files are backed up, or that is restored to.
pub(crate) struct Client {
    /// What it is called.
    pub host: HostName,
    /// Its disk agent.
    pub agent: Arc<dyn DiskAgent>,
    /// Whether it is the cell's own host, where its home is.
    pub is_here: bool,
}

impl Cell {
    /// The client of that name; where none is asked for, this host.
    pub(crate) fn client(&self, asked: Option<&HostName>) -> Result<Client> {
        let host = asked.unwrap_or_else(|| self.host()).clone();
        if host == *self.host() {
            return Ok(Client { host, agent: self.agents.disk.clone(), is_here: true });
        }
        match self.agents.clients.disk_agent(&host) {
            Some(agent) => Ok(Client { host, agent, is_here: false }),
            None => Err(SessionRefusal::UnknownClient { host: host.to_string() }.into()),
        }
    }

    /// The host of an object; of one that is not known no host.
    pub(crate) fn host_of(&self, object: ObjectId) -> Result<HostName> {
        Ok(self.idb.object(object)?.map(|object| object.host).unwrap_or_default())
    }

    /// The client whose files an object is of. Of a host that is no client it is this one: its files may have come here.
    pub(crate) fn client_of(&self, host: &HostName) -> Result<Client> {
        let is_client = self.agents.clients.disk_agent(host).is_some();
        self.client(is_client.then_some(host))
    }
}
