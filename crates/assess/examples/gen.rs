use capstan_assess::create_data::*;
fn main() { let a: Vec<String> = std::env::args().collect(); let o = Options::preset(&a[1]).unwrap(); println!("{:?}", create_data(std::path::Path::new(&a[2]), &o, &|_, _| {})); }
