//! Why a conversation, or a whole connection, cannot go on.

use capstan_engine::problem::Explain;
use capstan_engine::threads::NoThread;
use capstan_wire::WireError;
use capstan_wire::channel::ChannelError;
use capstan_wire::data::DataError;
use capstan_wire::frame::FrameError;
use capstan_wire::hello::NoCommonVersion;

/// Why a conversation, or a whole connection, cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// This side closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other side closed it, or its program ended.
    #[error("the other side closed the connection")]
    Gone,
    /// The other side ended the conversation, with nothing more to say.
    #[error("the other side ended the conversation")]
    Ended,
    /// It ended within a message.
    #[error("the connection was cut within a message")]
    CutOff,
    /// The other side says why it does not go on.
    #[error("the other side refuses: {0}")]
    Refused(String),
    /// The operating system reports an error.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// Nothing came for so many seconds.
    #[error("nothing was heard from the other side for {0} s")]
    Silent(u64),
    /// What came is no frame.
    #[error("the other side does not keep the protocol: {0}")]
    Frame(#[from] FrameError),
    /// It breaks the rules of a channel.
    #[error("the other side does not keep the protocol: {0}")]
    Channel(#[from] ChannelError),
    /// It breaks the rules of a data connection.
    #[error("the other side does not keep the protocol: {0}")]
    Data(#[from] DataError),
    /// A message that is none, or too long.
    #[error("the other side does not keep the protocol: {0}")]
    Message(String),
    /// It holds too much.
    #[error("the other side sent more messages than are read here")]
    TooMuch,
    /// There is no version of the protocol that both speak.
    #[error(transparent)]
    Version(#[from] NoCommonVersion),
    /// There is no thread to serve the connection.
    #[error("{0}")]
    NoThread(String),
}

impl Explain for Broken {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Silent(_) | Self::Failed(_) | Self::CutOff => {
                "see whether the other host runs, and whether a firewall drops idle connections"
                    .to_owned()
            }
            Self::Frame(_)
            | Self::Channel(_)
            | Self::Data(_)
            | Self::Message(_)
            | Self::TooMuch => "bring both hosts to the same version of capstan".to_owned(),
            Self::Closed
            | Self::Gone
            | Self::Ended
            | Self::Refused(_)
            | Self::Version(_)
            | Self::NoThread(_) => return None,
        })
    }
}

impl From<WireError> for Broken {
    fn from(e: WireError) -> Self {
        Self::Message(e.to_string())
    }
}

impl From<NoThread> for Broken {
    fn from(e: NoThread) -> Self {
        Self::NoThread(e.to_string())
    }
}

impl From<std::io::Error> for Broken {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(e.to_string())
    }
}
