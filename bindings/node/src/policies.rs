//! Policies of a file, as JavaScript calls them.

use napi_derive::napi;
use tollgate_binding::{Clients, Policies, PolicyOptions, RequestHead};

use crate::bridge;
use crate::error::{self, Result};
use crate::handles::Handled;
use crate::response::lines;
use crate::ruling::PolicyRuling;

/// The source of policies, as JavaScript writes it.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct PolicySettings {
    /// The path of the file.
    pub file: String,
    /// The URL of the store.
    pub store: String,
    /// The profile of the headers.
    pub headers: String,
    /// The number of a way to find clients; 0 for the other end of the connection.
    pub clients: u32,
    /// The header that has API keys, and the secret by which they are hashed.
    pub api_key: Option<Vec<String>>,
}

/// The head of a request, as JavaScript has it.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct PolicyRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Each is a name and a line.
    pub headers: Vec<Vec<String>>,
    /// The other end of the connection.
    pub peer: Option<String>,
    /// The authenticated user.
    pub user: Option<String>,
    /// The template of its route.
    pub route: Option<String>,
    /// Each is a name and a value.
    pub fields: Vec<Vec<String>>,
}

impl PolicyRequest {
    fn head(&self) -> RequestHead<'_> {
        let fields = self.fields.iter().filter_map(|field| match &field[..] {
            [name, value] => Some((name.clone(), value.clone())),
            _ => None,
        });
        RequestHead {
            method: &self.method,
            target: &self.target,
            headers: lines(&self.headers).collect(),
            peer: self.peer.as_deref(),
            user: self.user.clone(),
            route: self.route.clone(),
            fields: fields.collect(),
        }
    }
}

/// The number of the policies of a file.
#[napi(catch_unwind)]
pub(crate) fn policies(settings: PolicySettings) -> Result<u32> {
    let PolicySettings { file, store, headers, clients, api_key } = &settings;
    let clients = match clients {
        0 => None,
        number => Some(<Clients as Handled>::find(*number)?),
    };
    let api_key = match api_key.as_deref() {
        Some([header, secret]) => Some((header.as_str(), secret.as_str())),
        _ => None,
    };
    let (file, store, headers, clients) =
        (file.as_str(), store.as_str(), headers.as_str(), clients.as_deref());
    let options = PolicyOptions { file, store, headers, clients, api_key };
    Ok(Policies::new(&options).map_err(error::raised)?.put())
}

/// Whether they count in memory, which answers at once.
#[napi(catch_unwind)]
pub(crate) fn policies_in_memory(policies: u32) -> Result<bool> {
    Ok(Policies::find(policies)?.in_memory())
}

/// The names of the fields `field.NAME` that the file reads.
#[napi(catch_unwind)]
pub(crate) fn policy_fields(policies: u32) -> Result<Vec<String>> {
    Policies::find(policies)?.field_names().map_err(error::raised)
}

/// Reads the file again.
#[napi(catch_unwind)]
pub(crate) fn reload_policies(policies: u32) -> Result<()> {
    Policies::find(policies)?.reload().map_err(error::raised)
}

/// Judges a request, in memory.
#[napi(catch_unwind)]
pub(crate) fn judge(policies: u32, request: PolicyRequest) -> Result<PolicyRuling> {
    let ruling = Policies::find(policies)?.judge(request.head()).map_err(error::raised)?;
    Ok(ruling.into())
}

/// Judges a request. The answer comes to `place` of this thread.
#[napi(catch_unwind)]
pub(crate) fn start_judging(policies: u32, place: u32, request: PolicyRequest) -> Result<()> {
    let policies = Policies::find(policies)?;
    let started = policies.start(request.head(), bridge::sender(place), &bridge::carrier()?);
    started.map_err(error::raised)
}

/// Forgets policies that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_policies(policies: u32) {
    Policies::forget(policies);
}
