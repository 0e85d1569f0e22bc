//! The requests that instances are sent.
//!
//! Invariant: every command's name goes through the primary's renames.

use super::Sentinel;
use crate::address::Address;
use crate::instance::{InstanceId, Role};
use crate::link::Awaited;

impl Sentinel {
    /// The name under which the instance knows a command.
    pub(super) fn command_word(&self, id: InstanceId, command: &str) -> Vec<u8> {
        let renamed = &self.get(self.primary_of(id)).settings.renamed_commands;
        renamed.get(command).map_or(command, String::as_str).into()
    }

    /// AUTH, if the instance wants it: with the primary's password, or with that of Sentinels.
    pub(super) fn auth_request(&self, id: InstanceId) -> Option<Vec<Vec<u8>>> {
        let settings = &self.settings;
        let (user, pass) = match self.get(id).role {
            Role::Primary | Role::Replica => {
                let primary = &self.get(self.primary_of(id)).settings;
                (primary.auth_user.clone(), primary.auth_pass.clone())
            }
            Role::Sentinel if settings.sentinel_pass.is_some() => {
                (settings.sentinel_user.clone(), settings.sentinel_pass.clone())
            }
            Role::Sentinel => (None, settings.requirepass.clone()),
        };
        let mut request = vec![self.command_word(id, "AUTH")];
        let pass = pass?;
        request.extend(user);
        request.push(pass);
        Some(request)
    }

    /// CLIENT SETNAME, so that an operator of the instance sees the connection's purpose.
    pub(super) fn client_name_request(&self, id: InstanceId, purpose: &str) -> Vec<Vec<u8>> {
        let short = self.id.get(..8).unwrap_or(&self.id);
        let name = format!("sentinel-{short}-{purpose}");
        vec![self.command_word(id, "CLIENT"), b"SETNAME".to_vec(), name.into_bytes()]
    }

    /// Makes an instance follow `primary`, or be one: as a transaction that also keeps that in its
    /// configuration file and closes its clients, which then ask for the primary again. Its answer does not
    /// matter; its later INFO does.
    pub(super) fn send_replica_of(&mut self, id: InstanceId, primary: Option<&Address>) -> bool {
        let (host, port) = match primary {
            Some(address) => (self.announced(address).to_owned(), address.port.to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        let requests: [(&str, &[&str]); 6] = [
            ("MULTI", &[]),
            ("SLAVEOF", &[&host, &port]),
            ("CONFIG", &["REWRITE"]),
            ("CLIENT", &["KILL", "TYPE", "normal"]),
            ("CLIENT", &["KILL", "TYPE", "pubsub"]),
            ("EXEC", &[]),
        ];
        requests.into_iter().all(|(command, arguments)| {
            let mut request = vec![self.command_word(id, command)];
            request.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
            self.send(id, Awaited::Nothing, request)
        })
    }
}
