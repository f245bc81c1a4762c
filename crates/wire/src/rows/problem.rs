//! What went wrong: problems, what frames lack, codes of messages.

use capstan_engine::frames::Lack;
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder, decode as de};

use super::form::{Form, Written, fields};

impl Form for Code {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        to.u16(self.row().0).map(drop)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.u16()?;
        let code = Self::ALL.iter().find(|code| code.row().0 == number);
        code.copied().ok_or_else(|| de::Error::message("a code of messages that is unknown"))
    }
}

impl Form for Problem {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        self.sentence.put(to.array(2)?)?;
        self.hint.put(to)
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let mut problem = Self::new("");
        fields(from, &mut |n, from| {
            match n {
                0 => problem.sentence = Form::get(from)?,
                1 => problem.hint = Form::get(from)?,
                _ => from.skip()?,
            }
            Ok(())
        })?;
        Ok(problem)
    }
}

impl Form for Lack {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        match self {
            Self::Damaged(text) => text.put(to.array(2)?.u8(0)?),
            Self::Unread(text) => text.put(to.array(2)?.u8(1)?),
            Self::Away { medium, why, text } => {
                medium.put(to.array(4)?.u8(2)?)?;
                why.put(to)?;
                text.put(to)
            }
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.array()?;
        Ok(match (from.u8()?, number) {
            (0, Some(2)) => Self::Damaged(Form::get(from)?),
            (1, Some(2)) => Self::Unread(Form::get(from)?),
            (2, Some(4)) => Self::Away {
                medium: MediumId::get(from)?,
                why: Form::get(from)?,
                text: Form::get(from)?,
            },
            _ => return Err(de::Error::message("a lack that is unknown")),
        })
    }
}
