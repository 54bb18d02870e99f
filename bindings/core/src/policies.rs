//! Policies of a file, before a program of another language: the layer of Rust decides by the head
//! of a request, so that identity, bans, local shares, headers and refusals have one meaning.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use tokio::sync::watch;
use tollgate::{MemoryStore, ParseError, Store, StoreError, at_once};
use tollgate_policy::{Field, Gate};
use tollgate_stores::{AnyStore, StoreUrl};
use tollgate_tower::answer::Profile;
use tollgate_tower::identity::{ApiKey, ClientAddress, Hashing, Head, Identity};
use tollgate_tower::{Builder, Tollgate, TollgateLayer, UnixPeer};
use tower_layer::Layer as _;
use tower_service::Service;

use crate::answer::{BindingAnswer, Sender};
use crate::carrier::Carrier;
use crate::fork::{self, Closing};
use crate::http::profile;
use crate::lock::lock;
use crate::ruling::{Passed, Ruling};
use crate::runtime::runtime;
use crate::{Clients, Failure, Result, warnings};

/// How long to wait before a server that cannot be reached is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The source of policies, and where they count.
#[derive(Clone, Copy, Debug)]
pub struct PolicyOptions<'o> {
    /// The path of the file.
    pub file: &'o str,
    /// The URL of the store.
    pub store: &'o str,
    /// The profile of the headers.
    pub headers: &'o str,
    /// How clients are found; without it by the other end of the connection.
    pub clients: Option<&'o Clients>,
    /// The header that has the API key of a caller, and the secret by which keys are hashed;
    /// `authorization` has it as a bearer token.
    pub api_key: Option<(&'o str, &'o str)>,
}

/// The head of a request, as a server of another language has it.
#[derive(Clone, Default, Debug)]
pub struct RequestHead<'h> {
    /// The method.
    pub method: &'h str,
    /// The path with its query, as it was sent.
    pub target: &'h str,
    /// The lines of its headers.
    pub headers: Vec<(&'h [u8], &'h [u8])>,
    /// The other end of the connection, with or without a port; nothing at a Unix socket.
    pub peer: Option<&'h str>,
    /// The authenticated user.
    pub user: Option<String>,
    /// The template of its route.
    pub route: Option<String>,
    /// The fields `field.NAME` of policies.
    pub fields: Vec<(String, String)>,
}

/// The policies of a file and the store in which they count.
#[derive(Debug)]
pub struct Policies {
    how: Arc<How>,
    door: Arc<Door>,
}

#[derive(Debug)]
struct How {
    file: PathBuf,
    url: StoreUrl,
    profile: Profile,
    client: ClientAddress,
    api_key: Option<ApiKey>,
}

/// The layer, in the process that made it.
#[derive(Debug)]
struct Door(Mutex<(u32, Option<Arc<Opened>>)>);

#[derive(Debug)]
struct Opened {
    limited: Tollgate<Admit, AnyStore>,
    gate: Gate<AnyStore>,
    /// Whether the first attempt to reach the store has ended.
    tried: watch::Receiver<bool>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Else the thread of a file would keep it open.
        if let AnyStore::Sqlite(store) = self.gate.store() {
            store.store().end_thread();
        }
    }
}

impl Door {
    /// The layer of this process, opened if it is not. No fork happens meanwhile.
    fn opened(&self, how: &How) -> Result<Arc<Opened>> {
        let mut open = lock(&self.0);
        if open.0 != std::process::id() {
            // The parent's: neither used nor dropped.
            core::mem::forget(core::mem::replace(&mut *open, (std::process::id(), None)));
        }
        if let Some(opened) = &open.1 {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(how.open()?);
        open.1 = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

impl Closing for Door {
    fn close(&self) {
        lock(&self.0).1 = None;
    }
}

impl Policies {
    /// Reads the file, and opens the store. A server that cannot be reached is tried again until it
    /// can; meanwhile the failure rules of the policies decide.
    ///
    /// # Errors
    /// The file has problems; an option with an invalid value; a file of counts that cannot be
    /// opened.
    pub fn new(options: &PolicyOptions<'_>) -> Result<Self> {
        let PolicyOptions { file, store, headers, clients, api_key } = *options;
        warnings::keep();
        let how = How {
            file: PathBuf::from(file),
            url: StoreUrl::parse(store).map_err(|it| Failure::from(&it))?,
            profile: profile(headers)?,
            client: clients.map_or_else(ClientAddress::peer, |it| it.address().clone()),
            api_key: api_key.map(key_of).transpose()?,
        };
        let door = Arc::new(Door(Mutex::new((std::process::id(), None))));
        let policies = Self { how: Arc::new(how), door };
        if policies.is_file() {
            fork::close_before_fork(&policies.door);
        }
        policies.opened()?;
        Ok(policies)
    }

    fn is_file(&self) -> bool {
        matches!(self.how.url, StoreUrl::Sqlite(_))
    }

    /// Whether the answer is immediate.
    pub fn in_memory(&self) -> bool {
        matches!(self.how.url, StoreUrl::Memory)
    }

    /// Reads the file again. Where it has problems, the policies stay as they are.
    ///
    /// # Errors
    /// Its problems.
    pub fn reload(&self) -> Result<()> {
        let read = tollgate_policy::Policies::load(&self.how.file);
        let policies = read.map_err(|it| Failure::argument(it.to_string()))?;
        // The fields that they read are known before they are in force.
        let trial = Gate::new(policies.clone(), MemoryStore::new()).map_err(wrong("file"))?;
        self.how.builder(trial)?.build().map_err(lacks)?;
        self.opened()?.gate.replace(policies);
        Ok(())
    }

    /// The layer of this process. No fork happens meanwhile.
    fn opened(&self) -> Result<Arc<Opened>> {
        self.door.opened(&self.how)
    }

    /// The names of the fields `field.NAME` that the file reads now.
    ///
    /// # Errors
    /// A forked child cannot open the store.
    pub fn field_names(&self) -> Result<Vec<String>> {
        let current = self.opened()?.gate.current();
        let custom = current.policies().fields().iter().filter_map(|field| match field {
            Field::Custom(name) => Some(name.to_string()),
            _ => None,
        });
        Ok(custom.collect())
    }

    /// The ruling on a request, in memory.
    ///
    /// # Errors
    /// The policies do not count in memory.
    pub fn judge(&self, head: RequestHead<'_>) -> Result<Ruling> {
        let ruling = judged(self.opened()?, head.request());
        at_once(ruling).ok_or_else(|| Failure::other("memory answers at once"))
    }

    /// The part that asks and waits for the ruling. A fork of another thread may happen while it is
    /// called, and not before. A file is opened and left within it, so that no fork finds it open.
    ///
    /// # Errors
    /// The system has no threads left; of the part, a file of counts that cannot be opened.
    pub fn waiting(
        &self,
        head: RequestHead<'_>,
    ) -> Result<impl FnOnce() -> Result<Ruling> + Send + use<>> {
        let (runtime, gate, request) = (runtime()?, fork::gate(), head.request());
        let on_network = (!self.is_file()).then(|| self.opened()).transpose()?;
        let (how, door) = (Arc::clone(&self.how), Arc::clone(&self.door));
        Ok(move || {
            let Some(opened) = on_network else {
                let _passed = gate.read().unwrap_or_else(PoisonError::into_inner);
                return Ok(runtime.block_on(judged(door.opened(&how)?, request)));
            };
            Ok(runtime.block_on(judged(opened, request)))
        })
    }

    /// Asks, and hands the ruling to `sender` when it comes. `carrier` rings then.
    ///
    /// # Errors
    /// As [`Self::waiting`].
    pub fn start<D: Send + 'static>(
        &self,
        head: RequestHead<'_>,
        sender: Sender<D>,
        carrier: &Arc<Carrier>,
    ) -> Result<()> {
        let (runtime, carrier) = (runtime()?, Arc::clone(carrier));
        let answer = move |ruling: Result<Ruling>| {
            let ruling = ruling.map(|ruling| BindingAnswer::Ruling(Box::new(ruling)));
            sender.send(ruling.map_err(|it| StoreError::permanent(it.what).into()));
            carrier.ring();
        };
        if self.is_file() {
            let waiting = self.waiting(head)?;
            runtime.spawn_blocking(move || answer(waiting()));
            return Ok(());
        }
        let (opened, request) = (self.opened()?, head.request());
        runtime.spawn(async move { answer(Ok(judged(opened, request).await)) });
        Ok(())
    }
}

/// The ruling on a request, if there is one.
async fn judged(
    opened: Arc<Opened>,
    request: core::result::Result<Request<()>, &'static str>,
) -> Ruling {
    let request = match request {
        Ok(request) => request,
        Err(what) => return Ruling::unreadable(what),
    };
    // It ends with the first attempt, too, if that never comes.
    let _ = opened.tried.clone().wait_for(|tried| *tried).await;
    let Ok(response) = opened.limited.clone().call(request).await;
    Ruling::from(response)
}

impl How {
    /// The layer over the policies, which count in the store.
    fn open(&self) -> Result<Opened> {
        let policies = tollgate_policy::Policies::load(&self.file);
        let policies = policies.map_err(|it| Failure::argument(it.to_string()))?;
        let runtime = runtime()?;
        // A store on a network starts tasks.
        let _inside = runtime.enter();
        let store = self.url.clone().unconnected().map_err(|it| Failure::from(&it))?;
        let gate = Gate::new(policies, store.clone()).map_err(wrong("file"))?;
        let limited = self.builder(gate.clone())?.build().map_err(lacks)?.layer(Admit);
        let is_near = matches!(store, AnyStore::Memory(_) | AnyStore::Sqlite(_));
        let (first, tried) = watch::channel(is_near);
        if !is_near {
            runtime.spawn(async move {
                // Nobody waits for a store whose policies are gone.
                while !first.is_closed() && store.try_connect().await.is_err() {
                    first.send_replace(true);
                    tokio::time::sleep(AGAIN).await;
                }
                first.send_replace(true);
            });
        }
        Ok(Opened { limited, gate, tried })
    }

    /// The builder of the layer over a gate.
    fn builder<S: Store + 'static>(&self, gate: Gate<S>) -> Result<Builder<S>> {
        let current = gate.current();
        let mut builder = TollgateLayer::builder(gate)
            .client(self.client.clone())
            .profile(self.profile)
            .user(Identity::own("user", |head| given(head)?.user.clone()))
            .route(|extensions| extensions.get::<Arc<Given>>()?.route.clone());
        for field in current.policies().fields() {
            if let Field::Custom(name) = field {
                let wanted = name.clone();
                let read = move |head: &Head<'_>| {
                    let fields = &given(head)?.fields;
                    let found = fields.iter().find(|(name, _)| **name == *wanted);
                    found.map(|(_, value)| value.clone())
                };
                builder = builder.field(name, Identity::own(name, read));
            }
        }
        Ok(match &self.api_key {
            Some(key) => builder.api_key(Identity::api_key(key.clone())),
            None => builder,
        })
    }
}

/// Reads keys of a header, hashed with a secret.
fn key_of((header, secret): (&str, &str)) -> Result<ApiKey> {
    let hashing = Hashing::keyed(secret).map_err(wrong("the secret of API keys"))?;
    if header.eq_ignore_ascii_case("authorization") {
        return Ok(ApiKey::bearer(hashing));
    }
    ApiKey::header(header, hashing).map_err(wrong("the header of API keys"))
}

/// A field that nobody tells, in the words of the packages.
fn lacks(error: ParseError) -> Failure {
    if error.remedy().contains("`api_key`") && error.what().contains("`api_key`") {
        return Failure::argument(
            "api_key is missing: the file reads the field `api_key`. Give the header that has the \
             key, and a secret by which keys are hashed",
        );
    }
    wrong("file")(error)
}

fn wrong(name: &'static str) -> impl Fn(ParseError) -> Failure {
    move |error| Failure::argument(format!("{name}: {error}"))
}

/// The facts that a program knows of a request besides its head.
#[derive(Debug)]
struct Given {
    user: Option<String>,
    route: Option<String>,
    fields: Vec<(String, String)>,
}

fn given<'h>(head: &Head<'h>) -> Option<&'h Given> {
    head.extensions().get::<Arc<Given>>().map(AsRef::as_ref)
}

impl RequestHead<'_> {
    /// The request, or the reason why none can be made.
    fn request(self) -> core::result::Result<Request<()>, &'static str> {
        let mut request = Request::new(());
        let method = Method::from_bytes(self.method.as_bytes());
        *request.method_mut() = method.map_err(|_| "this is no method of HTTP")?;
        let uri = Uri::try_from(self.target);
        *request.uri_mut() = uri.map_err(|_| "the target of the request is no URI")?;
        for (name, value) in self.headers {
            let line = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
            let (Ok(name), Ok(value)) = line else {
                return Err("a line of the request is no header");
            };
            request.headers_mut().append(name, value);
        }
        let extensions = request.extensions_mut();
        match self.peer.filter(|peer| !peer.is_empty()) {
            None => {
                extensions.insert(UnixPeer);
            }
            Some(peer) => {
                let found = ClientAddress::peer().client_of(Some(peer), &HeaderMap::new());
                if let Some(client) = found {
                    extensions.insert(SocketAddr::new(client.address(), 0));
                }
            }
        }
        let Self { user, route, fields, .. } = self;
        extensions.insert(Arc::new(Given { user, route, fields }));
        Ok(request)
    }
}

/// Accepts every request that reaches it.
#[derive(Clone, Copy, Debug)]
struct Admit;

impl Service<Request<()>> for Admit {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Ready<core::result::Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<core::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut response = Response::new(Bytes::new());
        response.extensions_mut().insert(Passed);
        ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tollgate::Decision;

    use super::*;
    use crate::{Answers, Rest};

    const FILE: &str = r#"
version = 1
nodes = 2

[[policies]]
name = "api"
on_failure = { local = "50 %" }
shard = "never"

[[policies.limits]]
subject = "ip"
limit = "2/h via fixed_window"

[[policies.limits.overrides]]
when = { "header.x-bad" = "1" }
limit = "banned"

[[policies.limits]]
subject = "field.tenant"
absent = "skip"
limit = "3/h via fixed_window"
"#;

    struct Made {
        dir: tempfile::TempDir,
        policies: Policies,
    }

    fn made(text: &str, store: &str) -> Result<Made> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policies.toml");
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let store = store.replace("DIR", dir.path().to_str().unwrap());
        let (store, headers) = (store.as_str(), "draft");
        let options = PolicyOptions { file, store, headers, clients: None, api_key: None };
        let policies = Policies::new(&options)?;
        Ok(Made { dir, policies })
    }

    fn head(peer: &str) -> RequestHead<'_> {
        let fields = vec![("tenant".to_owned(), "a".to_owned())];
        let (method, target, peer) = ("GET", "/a?b=1", Some(peer));
        RequestHead { method, target, peer, fields, ..RequestHead::default() }
    }

    /// The status of a refusal; 200 for a request that passes.
    fn status(ruling: &Ruling) -> u16 {
        ruling.refusal.as_ref().map_or(200, |refusal| refusal.status)
    }

    #[test]
    fn a_file_decides_by_the_head_of_a_request() {
        let Made { dir, policies } = made(FILE, "memory://").unwrap();
        assert_eq!(policies.field_names().unwrap(), ["tenant"]);
        let judged = |head| policies.judge(head).unwrap();
        let first = judged(head("192.0.2.7:4711"));
        assert_eq!(status(&first), 200);
        assert!(first.headers.iter().any(|(name, _)| name == "ratelimit"), "{first:?}");
        assert_eq!(status(&judged(head("192.0.2.7"))), 200);
        assert_eq!(status(&judged(head("192.0.2.7"))), 429, "of one client");
        assert_eq!(status(&judged(head("192.0.2.8"))), 200);
        assert_eq!(status(&judged(head("192.0.2.9"))), 429, "of one tenant");
        let bad: (&[u8], &[u8]) = (b"X-Bad", b"1");
        let banned = judged(RequestHead { headers: vec![bad], ..head("192.0.2.10") });
        assert_eq!(status(&banned), 403);
        // Whatever a client sends has an answer.
        let odd: (&[u8], &[u8]) = (b"no name", b"\n");
        for unreadable in [
            RequestHead { target: "no uri", ..head("192.0.2.7") },
            RequestHead { method: "GET IT", ..head("192.0.2.7") },
            RequestHead { headers: vec![odd], ..head("192.0.2.7") },
        ] {
            assert_eq!(status(&judged(unreadable)), 400);
        }
        for peer in [None, Some(""), Some("testclient")] {
            let status = status(&judged(RequestHead { peer, ..head("") }));
            assert!(status != 200 && status != 500, "{peer:?}: {status}");
        }
        std::fs::write(dir.path().join("policies.toml"), FILE.replace("3/h", "30/h")).unwrap();
        policies.reload().unwrap();
        assert_eq!(status(&judged(head("192.0.2.11"))), 200);
        std::fs::write(dir.path().join("policies.toml"), "version = 2").unwrap();
        let what = policies.reload().unwrap_err().what;
        assert!(what.contains("policies.toml:1"), "{what}");
        assert_eq!(status(&judged(head("192.0.2.12"))), 200, "they stay");
    }

    #[test]
    fn a_file_of_counts_answers_threads_and_loops() {
        let Made { dir: _dir, policies } = made(FILE, "sqlite://DIR/counts.db").unwrap();
        assert!(!policies.in_memory());
        let waited = || policies.waiting(head("192.0.2.8")).unwrap()().unwrap();
        assert_eq!(status(&waited()), 200);
        fork::close_files();
        let (bell, rung) = mpsc::channel();
        let ring = move || bell.send(()).unwrap_or_default();
        let handle = runtime().unwrap().handle().clone();
        let carrier = Arc::new(Carrier::new(handle, ring, Rest::Kept));
        let answers = Answers::<Decision<'static>>::default();
        policies.start(head("192.0.2.8"), answers.sender(7), &carrier).unwrap();
        rung.recv().unwrap();
        let came = answers.take();
        let [(7, Ok(BindingAnswer::Ruling(ruling)))] = came.as_slice() else { panic!("{came:?}") };
        assert_eq!(status(ruling), 200);
        assert_eq!(status(&waited()), 429, "the counts are still there");
        carrier.close();
    }

    #[test]
    fn local_shares_decide_while_a_server_is_away() {
        let made = made(FILE, "redis://127.0.0.1:1?deadline=100ms").unwrap();
        let rulings =
            [(); 2].map(|()| made.policies.waiting(head("192.0.2.7")).unwrap()().unwrap());
        // Half of two for each of two nodes.
        assert_eq!([status(&rulings[0]), status(&rulings[1])], [200, 429]);
        let warned = rulings.iter().flat_map(|it| &it.warnings);
        let lost = warned.filter(|it| it.contains("the store does not answer")).count();
        assert_eq!(lost, 1, "{rulings:?}");
    }

    #[test]
    fn a_file_may_be_yaml() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policies.yaml");
        let text = "version: 1\npolicies:\n- name: api\n  on_failure: deny\n  \
                    limits: [{ subject: ip, limit: 1/h }]\n";
        std::fs::write(&path, text).unwrap();
        let (file, store, headers) = (path.to_str().unwrap(), "memory://", "none");
        let options = PolicyOptions { file, store, headers, clients: None, api_key: None };
        let policies = Policies::new(&options).unwrap();
        let judged = [(); 2].map(|()| status(&policies.judge(head("192.0.2.7")).unwrap()));
        assert_eq!(judged, [200, 429]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let failed = |text: &str, store: &str| made(text, store).map(|_| ()).unwrap_err().what;
        assert!(failed("version = 1", "memory://").contains("policies.toml:1:1"));
        assert!(failed(FILE, "ftp://host").contains("ftp"));
        let keys = FILE.replace("field.tenant", "api_key");
        let what = failed(&keys, "memory://");
        assert!(what.starts_with("api_key is missing"), "{what}");
        assert!(
            key_of(("x-key", "short")).unwrap_err().what.starts_with("the secret of API keys: ")
        );
        assert!(
            key_of(("x key", &"s".repeat(64)))
                .unwrap_err()
                .what
                .starts_with("the header of API keys: ")
        );
    }
}
