//! Which addresses an upstream may have, checked after name resolution.
//!
//! Loopback, link-local, unspecified, multicast and cloud metadata addresses are refused unless a
//! rule allows them: an `McpUpstream` must not turn the gateway into a way into its own pod or node.
//! An IPv4 address that travels inside an IPv6 one is judged as both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hangar_wire::AddressRules;

/// The rules of a configuration, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allow: Vec<Network>,
    deny: Vec<Network>,
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an address range such as 10.0.0.0/8")]
pub struct Error(String);

/// An address range in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Metadata services outside the link-local range: AWS and Google Cloud over IPv6, Alibaba Cloud.
const METADATA: [IpAddr; 3] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
];

// === impl Policy ===

impl Policy {
    pub fn parse(rules: &AddressRules) -> Result<Self, Error> {
        let AddressRules { allow, deny } = rules;
        let parse = |list: &[String]| {
            list.iter()
                .map(|text| text.parse())
                .collect::<Result<Vec<Network>, Error>>()
        };
        Ok(Self {
            allow: parse(allow)?,
            deny: parse(deny)?,
        })
    }

    /// True when a connection may go there. Deny wins; then allow; then the built-in refusals.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.permits_one(address) && embedded(address).is_none_or(|v4| self.permits_one(v4.into()))
    }

    fn permits_one(&self, address: IpAddr) -> bool {
        if self.deny.iter().any(|network| network.contains(address)) {
            return false;
        }
        self.allow.iter().any(|network| network.contains(address))
            || !refused_unless_allowed(address)
    }
}

/// The IPv4 address behind a NAT64 gateway (RFC 6052), or in the old compatible form.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else {
        return None;
    };
    let segments = v6.segments();
    let [prefix @ .., high, low] = &segments;
    let is_special = v6.is_unspecified() || v6.is_loopback();
    match prefix {
        [0x64, 0xff9b, 0, 0, 0, 0] => {}
        [0, 0, 0, 0, 0, 0] if !is_special => {}
        _ => return None,
    }
    Some(Ipv4Addr::from(u32::from(*high) << 16 | u32::from(*low)))
}

fn refused_unless_allowed(address: IpAddr) -> bool {
    METADATA.contains(&address)
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
}

// === impl Network ===

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or(0);
                u32::from(network) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or(0);
                u128::from(network) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || Error(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            Some(digits) => digits.parse().map_err(|_| refuse())?,
            None => widest,
        };
        if prefix > widest {
            return Err(refuse());
        }
        // Addresses are judged in their canonical form, and so must rules be.
        match address {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Ok(Self {
                address: address.to_canonical(),
                prefix: prefix.checked_sub(96).ok_or_else(refuse)?,
            }),
            _ => Ok(Self { address, prefix }),
        }
    }
}

#[cfg(test)]
mod tests;
