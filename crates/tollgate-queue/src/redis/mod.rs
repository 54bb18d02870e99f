//! Queues in Redis and Valkey, as streams with a consumer group or as lists.
//!
//! Each operation is one script call, with the server's clock. All keys of a queue begin with
//! `tgq1:{queue:NAME}:`, after the prefix of its environment if there is one. Its jobs lie in a
//! stream, so that `XINFO` and `XPENDING` show them, or in a list (`stream.lua` and `list.lua`,
//! which scripts call the shelf). All other data is separate, and the same for both (`common.lua`).
//! Only remembered ids expire by themselves.
//!
//! A queue of lists has no separate list per worker for the jobs in flight. Workers' names are not
//! known in advance, and a script may only use declared keys; and removing one job from such a list
//! would scan it. Instead `out` contains the jobs in flight of all workers, in the order of their
//! redelivery, so that the next take finds abandoned ones. `bodies` contains the worker of each.

mod backend;
mod body;
mod call;
mod calls;
mod layout;
mod offer;
mod reply;
mod script;
mod value;

use core::fmt;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::engine::Mode;
use tollgate::{Clock, LimitSet};
use tollgate_redis::compose::{self, Check, Parts};
use tollgate_redis::{
    KeyPrefix, Options, Script, ScriptClient, ScriptReply, SharedScript, Subscription,
};

use self::call::ScriptCall;
use self::layout::key_start;
use self::reply::check_reply;
use self::script::{ALLOW_OOM, READ_ONLY, offers_script, script};
use self::value::{text, unexpected_reply};
use crate::error::Error;

pub use self::layout::Layout;
pub use self::offer::OfferCall;

/// Queues on one Redis server. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub struct RedisQueues(Arc<Shared>);

struct Shared {
    caller: ScriptClient,
    prefix: KeyPrefix,
    layout: Layout,
    test_clock: Option<Box<dyn Clock>>,
    offer: Script,
    offers: SharedScript,
    ack: Script,
    settle: Script,
    inspect: Script,
    change: Script,
    pause: Script,
    remove: Script,
    names: Script,
    eviction: Script,
    take: Script,
    /// The scripts that take jobs under a rate, by its limits.
    take_scripts: Mutex<HashMap<String, Arc<Script>>>,
    /// The subscriptions that wake waiting workers, by queue name.
    subscriptions: Mutex<HashMap<String, Arc<Subscription>>>,
}

/// The most queues of one process with a subscription each.
const MAX_SUBSCRIPTIONS: usize = 256;

/// The most such scripts in the cache.
const MAX_TAKE_SCRIPTS: usize = 1_024;

impl fmt::Debug for RedisQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisQueues").field(&self.0.caller).finish()
    }
}

impl RedisQueues {
    /// Connects; new queues are streams.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the user, the password or the database.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        Self::connect_with(options, Layout::default()).await
    }

    /// Connects; new queues have this layout. A queue keeps the layout of its creation: using it
    /// with another is an [`Error::Settings`].
    ///
    /// # Errors
    /// As [`RedisQueues::connect`].
    pub async fn connect_with(options: Options, layout: Layout) -> Result<Self, Error> {
        let queues = Self::unconnected(options, layout);
        queues.try_connect().await?;
        Ok(queues)
    }

    /// The same before the first connection, for a program that starts while the server is away.
    /// All calls fail immediately until [`RedisQueues::try_connect`] has succeeded.
    #[must_use]
    pub fn unconnected(options: Options, layout: Layout) -> Self {
        Self::new(options, layout, None)
    }

    /// Connects, unless it has connected before.
    ///
    /// # Errors
    /// As [`RedisQueues::connect`].
    pub async fn try_connect(&self) -> Result<(), Error> {
        Ok(self.0.caller.try_connect().await?)
    }

    /// The same with another clock than the server's: for tests.
    #[doc(hidden)]
    pub async fn with_clock(
        options: Options,
        layout: Layout,
        clock: impl Clock + 'static,
    ) -> Result<Self, Error> {
        let queues = Self::new(options, layout, Some(Box::new(clock)));
        queues.try_connect().await?;
        Ok(queues)
    }

    fn new(options: Options, layout: Layout, test_clock: Option<Box<dyn Clock>>) -> Self {
        let prefix = options.key_prefix().clone();
        let caller = ScriptClient::unconnected(options);
        let script =
            |flags: &str, body: &str| script(layout, flags, "", body, test_clock.is_some());
        let offer = script("", offer::SCRIPT);
        let (single, has_test_clock) = (offer.clone(), test_clock.is_some());
        let offers = SharedScript::new(move || offers_script(layout, &single, has_test_clock));
        let ack = script(ALLOW_OOM, include_str!("ack.lua"));
        let settle = script(ALLOW_OOM, include_str!("settle.lua"));
        let inspect = script(ALLOW_OOM, include_str!("inspect.lua"));
        let change = script(ALLOW_OOM, include_str!("change.lua"));
        let pause = script(ALLOW_OOM, include_str!("pause.lua"));
        let remove = script(ALLOW_OOM, include_str!("remove.lua"));
        let take = script(ALLOW_OOM, &include_str!("take.lua").replace("$GRANT", ""));
        let take_scripts = Mutex::default();
        Self(Arc::new(Shared {
            caller,
            prefix,
            layout,
            test_clock,
            offer,
            offers,
            ack,
            settle,
            inspect,
            change,
            pause,
            remove,
            eviction: Script::new(format!("#!lua{READ_ONLY}\n{}", include_str!("eviction.lua"))),
            names: Script::new(format!("#!lua{READ_ONLY}\n{}", include_str!("names.lua"))),
            take,
            take_scripts,
            subscriptions: Mutex::default(),
        }))
    }

    /// The server's eviction policy, such as `allkeys-lru`. Jobs do not expire, so `allkeys-*` may
    /// evict jobs; `volatile-*` may evict ids of [`crate::Job::dedup_id`] and counts of rates too
    /// early. `None` if the server has no memory limit, or refuses writes at it.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn eviction_policy(&self) -> Result<Option<String>, Error> {
        let answer = self.0.caller.call(&self.0.eviction, &[], &Vec::<Vec<u8>>::new()).await?;
        let [max, policy] = &answer[..] else { return Err(unexpected_reply()) };
        let (max, policy) = (text(max)?, text(policy)?);
        let is_bound = max != "0" && policy != "noeviction" && !policy.is_empty();
        Ok(is_bound.then_some(policy))
    }

    /// The subscription that wakes workers which wait for jobs of this queue.
    fn subscription(&self, queue: &str) -> Arc<Subscription> {
        let mut subscriptions = self.0.subscriptions.lock();
        if let Some(subscription) = subscriptions.get(queue) {
            return Arc::clone(subscription);
        }
        if subscriptions.len() >= MAX_SUBSCRIPTIONS {
            subscriptions.clear();
        }
        let channel = format!("{}wake", key_start(&self.0.prefix, queue));
        let subscription = Arc::new(self.0.caller.subscribe(channel));
        subscriptions.insert(queue.to_owned(), Arc::clone(&subscription));
        subscription
    }

    /// The script that takes jobs under these limits.
    fn rate_script(&self, limits: &LimitSet) -> Result<Arc<Script>, Error> {
        let text: Vec<String> = limits.limits().iter().map(ToString::to_string).collect();
        let text = text.join(", ");
        let mut take_scripts = self.0.take_scripts.lock();
        if let Some(rate_script) = take_scripts.get(&text) {
            return Ok(Arc::clone(rate_script));
        }
        // A script knows the windows around the time at which it was made.
        if limits.limits().iter().any(|limit| limit.quota().calendar.is_some()) {
            return Err(Error::invalid(format!(
                "`{text}` is of a calendar, and a queue on Redis takes a duration, such as `30d`"
            )));
        }
        let mut check = Check::new(Mode::Partial);
        if self.0.test_clock.is_some() {
            check.clock = compose::Clock::Given;
        }
        let rate = check.compose(&[limits], &Parts::default());
        let rate = rate.ok_or_else(|| {
            Error::invalid(format!("`{text}` has no form in Lua, so a queue has no such rate"))
        })?;
        let grant = include_str!("grant.lua")
            .replace("$AFTER", &(self.0.layout.keys().len() + 1).to_string())
            .replace("$LIMITS", &limits.limits().len().to_string())
            .replace("$GIVEN", if self.0.test_clock.is_some() { ", ARGV[#ARGV]" } else { "" });
        let body = include_str!("take.lua").replace("$GRANT", &grant);
        let rate = rate.function("rate");
        let rate_script =
            script(self.0.layout, ALLOW_OOM, &rate, &body, self.0.test_clock.is_some());
        let rate_script = Arc::new(rate_script);
        if take_scripts.len() >= MAX_TAKE_SCRIPTS {
            take_scripts.clear();
        }
        take_scripts.insert(text, Arc::clone(&rate_script));
        Ok(rate_script)
    }

    async fn call(&self, script: &Script, ask: ScriptCall<'_>) -> Result<Vec<ScriptReply>, Error> {
        self.call_shared(script, None, ask).await
    }

    async fn call_shared(
        &self,
        script: &Script,
        shared: Option<&SharedScript>,
        mut ask: ScriptCall<'_>,
    ) -> Result<Vec<ScriptReply>, Error> {
        if let Some(clock) = &self.0.test_clock {
            ask.args.push(clock.now().as_micros().to_string().into_bytes());
        }
        let answer = self.0.caller.call_shared(script, shared, &ask.keys, &ask.args).await?;
        check_reply(self.0.layout, &ask, &answer)?;
        Ok(answer)
    }
}
