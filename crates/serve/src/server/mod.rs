//! `polyhead serve`: a server of translators, language models and encoders.
//!
//! 1. [`scheduler`] translates texts: it queues their sentences (`queue.rs`), which worker threads take in batches
//!    (`worker_pool.rs`), and caches translations (`cache.rs`).
//! 2. [`model_registry`] holds the models and loads them on demand (`model_slot.rs`, `model_forecast.rs`).
//! 3. [`mod@routes`] maps paths to handlers: `libre.rs` has LibreTranslate's calls, `v1.rs` and `stream.rs` our own, `about.rs`
//!    health, metrics and the API description. `documents.rs` extracts the texts of a document, [`request`] sends them to the
//!    scheduler, and [`answers`] defines the JSON of the answers; `language_set.rs` checks and detects languages, `lexical.rs` reads lexical constraints, [`files`]
//!    stores translated files.
//! 4. `openai/` has the calls for language models, `generation/` their running batches.
//! 5. `encoder/` queues texts for encoders beside sentences (`work.rs`); `openai/embeddings.rs` and `tei/` have the calls.
//! 6. `speech/` takes steps of transcriptions in the same queue, and `images/` classifies images; `openai/audio.rs` and `image_api.rs` have
//!    the calls.
//! 7. `admission.rs` checks API keys and rates, `memory_plan.rs` divides the memory, and `lifecycle.rs` runs it all: [`Server`].

mod about;
mod admission;
pub mod answers;
mod attention;
mod cache;
mod documents;
mod encoder;
pub mod files;
mod gauges;
mod generation;
mod image_api;
mod images;
mod language_set;
mod lexical;
mod libre;
mod lifecycle;
pub mod limits;
mod media_counters;
mod memory_plan;
mod model_forecast;
pub mod model_registry;
mod model_slot;
mod openai;
mod queue;
pub mod request;
pub mod routes;
pub mod scheduler;
mod signals;
mod speech;
mod stream;
mod tei;
mod v1;
mod work;
mod worker_pool;

pub use admission::AdmissionOptions;
pub use encoder::{EncoderEntry, EncoderGauges, LoadedEncoder};
pub use files::{FilesOptions, TranslatedFiles};
pub use generation::{GenerationGauges, LoadedGenerator};
pub use images::{ImageEntry, LoadedImages};
pub use lifecycle::{ServeOptions, Server};
pub use limits::RequestLimits;
pub use media_counters::MediaGauges;
pub use model_registry::{LanguageAnswer, LanguageModelEntry, LoadedModel, ModelEntry, ModelFolder};
pub use request::TranslationRequest;
pub use routes::{Entry, Gate, KeyPolicy, ServerState, routes};
pub use scheduler::{
    Client, FinishedSentence, RequestOptions, Scheduler, SchedulerGauges, SchedulerOptions, TranslationResult,
};
pub use speech::{LoadedSpeech, SpeechEntry};
