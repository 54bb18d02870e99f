//! The codec of the service, with buffers for short messages.

use core::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// The bytes that a call takes for its request, and for its answer, before it knows more: most
/// messages are shorter. Those of tonic's own codec are 8 KiB, and the allocator takes and returns
/// whole pages for a burst of calls.
const BUFFER_BYTES: usize = 512;

/// The bytes that are sent before another call has its turn: those of tonic's own codec.
const YIELD_BYTES: usize = 32 * 1_024;

/// Encodes and decodes with prost.
#[derive(Debug)]
pub(crate) struct ShortCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for ShortCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for ShortCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}
