use super::*;
use crate::temporary::TemporaryDirectory;

#[tokio::test]
async fn a_cluster_finds_its_data_again_and_takes_a_new_node() {
    let folder = TemporaryDirectory::make(Path::new("x")).unwrap();
    let options = || RedisClusterOptions {
        data_dir: Some(folder.path().join("cluster")),
        ..RedisClusterOptions::default()
    };
    let cluster = RedisCluster::start(options()).await.unwrap();
    let owner = cluster.owner(12_182, None).await.unwrap();
    let () = cluster.nodes[owner].run(&["SET", "foo", "7"]).await.unwrap();
    cluster.stop().await;
    drop(cluster);

    let mut cluster = RedisCluster::start(options()).await.unwrap();
    let owner = cluster.owner(12_182, None).await.unwrap();
    let kept: String = cluster.nodes[owner].run(&["GET", "foo"]).await.unwrap();
    assert_eq!(kept, "7");
    let added = cluster.add_node().await.unwrap();
    let refused = cluster.nodes[added].run::<String>(&["GET", "foo"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("MOVED"), "{refused}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_server_with_tls_takes_nothing_else() {
    let options = RedisOptions {
        certificates: Some(Certificates::make(true).unwrap()),
        ..RedisOptions::temporary()
    };
    let server = RedisServer::start(options).await.unwrap();
    assert!(server.tcp_url().starts_with("rediss://"));
    let plain = server.tcp_url().replace("rediss", "redis");
    let plain = redis::Client::open(plain).unwrap().get_multiplexed_async_connection().await;
    assert!(plain.is_err());
    server.stop().await;
}
