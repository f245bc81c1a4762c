//! How names of devices are told to other hosts.

/// Names that are written and read as text.
pub mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    /// For a field with a name.
    pub fn serialize<T: Display, S: Serializer>(name: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(name)
    }

    /// For a field with a name.
    pub fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// Devices. What this host cannot read is kept as it is.
pub mod device {
    use capstan_address::Address;
    use serde::{Deserialize, Deserializer, Serializer};

    /// For a field with a device.
    pub fn serialize<S: Serializer>(device: &Address, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(device)
    }

    /// For a field with a device.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Address, D::Error> {
        String::deserialize(d).map(Address::of_record)
    }

    /// For a field with several.
    pub mod list {
        use super::{Address, Deserialize, Deserializer, Serializer};

        /// For a field with devices.
        pub fn serialize<S: Serializer>(devices: &[Address], s: S) -> Result<S::Ok, S::Error> {
            s.collect_seq(devices.iter().map(ToString::to_string))
        }

        /// For a field with devices.
        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Address>, D::Error> {
            let names = Vec::<String>::deserialize(d)?;
            Ok(names.into_iter().map(Address::of_record).collect())
        }
    }
}
